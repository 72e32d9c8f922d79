from .adapters.pruners import make_pruner as make_pruner
from .adapters.samplers import make_sampler as make_sampler
from .analysis.listing import StudySummary as StudySummary
from .analysis.listing import list_studies as list_studies
from .analysis.no_recommendation import NoRecommendation as NoRecommendation
from .analysis.recommendation import Recommendation as Recommendation
from .analysis.recommendation import best as best
from .analysis.recommendation import best_optimizer as best_optimizer
from .database.episodes import EpisodeTable as EpisodeTable
from .database.records import Ask as Ask
from .database.records import EpisodeRecord as EpisodeRecord
from .errors import StudyError as StudyError
from .judging.ranking import Candidate as Candidate
from .judging.ranking import Ranked as Ranked
from .judging.ranking import rank as rank
from .judging.robust_choice import recommended as recommended
from .recording.opening import delete_study as delete_study
from .recording.opening import join_study as join_study
from .recording.opening import open_study as open_study
from .recording.recorder import Recorder as Recorder
from .reports import plot_learning_curves as plot_learning_curves
from .reports import plot_learning_rate as plot_learning_rate
from .reports import plot_optimizers as plot_optimizers
from .reports import plot_trials as plot_trials
from .reports import write_report as write_report
from .servers.dashboard import attach_figures as attach_figures
from .servers.dashboard import serve as serve
from .spaces.space_notation import parse_space as parse_space
from .spaces.spaces import Choice as Choice
from .spaces.spaces import Fixed as Fixed
from .spaces.spaces import FloatRange as FloatRange
from .spaces.spaces import IntRange as IntRange
from .spaces.spaces import Space as Space
from .spaces.spaces import distribution as distribution
from .spec.scheduler_names import PRUNERS as PRUNERS
from .spec.scheduler_names import SAMPLERS as SAMPLERS
from .spec.spec import StudySpec as StudySpec
from .statistics.values import iqm as iqm
from .statistics.values import last_part_return as last_part_return
from .statistics.values import windowed_mean as windowed_mean
from .storage.storage import StudyStorage as StudyStorage
from .storage.storage import open_storage as open_storage
from .study.study import OpenStudy as OpenStudy
from .study.study import load_study as load_study

# Deprecated names, which `__init__.py` resolves with a warning.
NoPick = NoRecommendation
Pick = Recommendation
