"""Public names of the market room."""

from riskroute.market.calibration import Calibration as Calibration
from riskroute.market.calibration import calibrate as calibrate
from riskroute.market.clock import Window as Window
from riskroute.market.dark_pools import DarkPool as DarkPool
from riskroute.market.dark_pools import generated_dark_pools as generated_dark_pools
from riskroute.market.importing import import_files as import_files
from riskroute.market.readers.reading import ImportOptions as ImportOptions
from riskroute.market.scenarios import Scenarios as Scenarios
from riskroute.market.scenarios import Slot as Slot
from riskroute.market.scenarios import sample_scenarios as sample_scenarios
from riskroute.market.store import Recording as Recording
from riskroute.market.store import Store as Store
from riskroute.market.synthetic.generate import generate_market as generate_market
