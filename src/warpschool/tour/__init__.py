"""The tour: the course's references, one step after the other, with right answers, counters and a diagnosis.

for step in run_tour(plan_tour()): ...
"""

from warpschool.tour.report import GpuFigures, Mistake, Tour, TourStep
from warpschool.tour.run import TourPlan, plan_tour, run_tour, take_tour

__all__ = ["GpuFigures", "Mistake", "Tour", "TourPlan", "TourStep", "plan_tour", "run_tour", "take_tour"]
