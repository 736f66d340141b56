"""Every public name, by the module that has it."""

from __future__ import annotations

from types import ModuleType

import riskroute

GROUPS = ("environments", "learning", "market", "policies", "routers", "routing")
MODULES: tuple[ModuleType, ...] = (riskroute, *(getattr(riskroute, name) for name in GROUPS))
PUBLIC = {
    f"{module.__name__}.{name}".removeprefix("riskroute."): getattr(module, name)
    for module in MODULES
    for name in module.__all__
    if name not in (*GROUPS, "__version__")
}
