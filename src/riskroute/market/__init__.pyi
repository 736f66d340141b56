"""Public names of `riskroute.market`."""

from riskroute.market.calibration import Calibration as Calibration
from riskroute.market.calibration import calibrate as calibrate
from riskroute.market.clock import TimeWindow as TimeWindow
from riskroute.market.dark_pools import DarkPool as DarkPool
from riskroute.market.dark_pools import generated_dark_pools as generated_dark_pools
from riskroute.market.frames import from_frame as from_frame
from riskroute.market.importing import import_files as import_files
from riskroute.market.readers.reading import ReadingOptions as ReadingOptions
from riskroute.market.recordings import Recording as Recording
from riskroute.market.recordings import RecordingStore as RecordingStore
from riskroute.market.scenarios import Scenarios as Scenarios
from riskroute.market.scenarios import ScenarioSlot as ScenarioSlot
from riskroute.market.scenarios import draw_scenarios as draw_scenarios
from riskroute.market.synthetic.generate import generate_market as generate_market
