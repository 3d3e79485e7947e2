"""Lists all subjects of scenarios."""

from tests.e2e.scenarios.boxes import boxes
from tests.e2e.scenarios.faults import faults
from tests.e2e.scenarios.files import files
from tests.e2e.scenarios.functions import functions
from tests.e2e.scenarios.groups import groups
from tests.e2e.scenarios.memory import memory
from tests.e2e.scenarios.timers import timers
from tests.e2e.scenarios.words import words
from tests.e2e.scenarios.work import work

SUBJECTS = [words, files, work, boxes, timers, groups, memory, functions, faults]
