"""The exercises of chapter 06: barriers and guards for a tiled product, a tile without bank conflicts, a transpose, a
barrier that not all threads reach, sums in registers, the turns of the banks predicted, and more shared memory than a
kernel gets unasked."""

from cudalab.checks.chapter_06.opt_in import WHOLE_ROWS
from cudalab.checks.chapter_06.tiles import BLOCK_SUMS, DISTANCES, PRODUCT, REGISTER_PRODUCT, TRANSPOSE, WAVEFRONTS

EXERCISES = (PRODUCT, DISTANCES, TRANSPOSE, BLOCK_SUMS, REGISTER_PRODUCT, WAVEFRONTS, WHOLE_ROWS)
