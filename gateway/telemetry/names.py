# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of what is counted and measured; the unit is part of the name. SPEC "Definitions" says what each time is.

Labels never hold personal data: results and reasons, stages, languages, job kinds; no numbers, names or call ids.
"""

from __future__ import annotations

from typing import Final

# calls and legs
CALLS_STARTED: Final = "calls_started"
CALLS_ENDED: Final = "calls_ended"  # result, reason
CALLS_REFUSED: Final = "calls_refused"  # reason
LEGS_LIVE: Final = "legs_live"

# segments
SEGMENTS_FINAL: Final = "segments_final"
SEGMENTS_LOST: Final = "segments_lost"  # reason
EAR_LATENCY_MS: Final = "ear_latency_ms"
AUDIO_END_TO_FINAL_MS: Final = "audio_end_to_final_ms"
STOP_TO_TERMINAL_MS: Final = "stop_to_terminal_ms"
FIRST_PREVIEW_MS: Final = "first_preview_ms"
STAGE_MS: Final = "stage_ms"  # stage

# speech jobs
JOBS_DONE: Final = "jobs_done"  # kind
JOBS_SHED: Final = "jobs_shed"  # kind
JOB_MS: Final = "job_ms"  # kind
REAL_TIME_FACTOR: Final = "real_time_factor"  # kind

# terms and numbers
TERMS_HIT: Final = "terms_hit"
TERMS_MISSED: Final = "terms_missed"
NUMBERS_REPAIRED: Final = "numbers_repaired"

# sound
UNDERRUNS: Final = "underruns"
LAG_STEPS: Final = "lag_steps"  # step
