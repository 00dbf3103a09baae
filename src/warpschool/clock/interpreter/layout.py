"""The words that encoded instructions, warps, streams and launches are made of; whoever reads or writes them has them
from here."""

from __future__ import annotations

FIELDS = 32
"""Words of one encoded instruction, in this order."""
OP, GUARD, GUARD_NOT, DST, DST_WIDTH = 0, 1, 2, 3, 4
A, A_HI, A_MOD, B, B_HI, B_MOD, C, C_HI, C_MOD = 5, 6, 7, 8, 9, 10, 11, 12, 13
PD0, PD1, PS0, PS0_NOT, PS1, PS1_NOT, PS2, PS2_NOT = 14, 15, 16, 17, 18, 19, 20, 21
IMM, FLAGS, TARGET, NEEDED, EVENT, BYTES, OFFSET, UNIFORM = 22, 23, 24, 25, 26, 27, 28, 29

(OP_NONE, OP_IMAD, OP_WIDE, OP_HI, OP_IADD3, OP_LEA, OP_LEA_HI, OP_SHF, OP_LOP3, OP_SEL, OP_IABS, OP_MNMX, OP_ISETP,
 OP_PRMT, OP_POPC, OP_FLO, OP_BREV, OP_SGXT, OP_BMSK, OP_PLOP3, OP_P2R, OP_R2P, OP_VOTE, OP_R2UR, OP_SHFL, OP_S2R,
 OP_LDC, OP_FADD, OP_FMUL, OP_FFMA, OP_FSETP, OP_FMNMX, OP_MUFU, OP_I2F, OP_F2I, OP_FCHK, OP_REDUX, OP_ELECT,
 OP_ADDMNMX,
 OP_LOAD, OP_STORE, OP_ATOM, OP_MATRIX, OP_SYNC, OP_BULK, OP_BRA, OP_EXIT, OP_BSSY, OP_BSYNC, OP_BREAK, OP_CALL,
 OP_RET, OP_WARPSYNC, OP_BAR, OP_DIV, OP_MATCH, OP_MOV64, OP_COPY, OP_FRND, OP_ADD64, OP_HALF) = range(61)  # fmt: skip

EVENT_NONE, EVENT_GLOBAL, EVENT_SHARED, EVENT_LOCAL, EVENT_COPY, EVENT_BARRIER, EVENT_SYNC, EVENT_BULK = range(8)
"""What follows an instruction in the stream: nothing; lines; wavefronts; lines; both; a barrier's number; what is done
to mbarriers; an mbarrier with the bytes that it is told of, and lines."""
SYNC_INIT, SYNC_ARRIVE, SYNC_DROP, SYNC_WAIT, SYNC_COPIED = range(1, 6)
"""What SYNCS does to an mbarrier: to begin, to arrive (and leave for good), to wait, to arrive with copies."""
BY_TOKEN = 2
"""In place of a parity: the phase in which the warp arrived. Whoever arrives is given bit 30 as a token."""
BULK_LOAD, BULK_STORE, BULK_ACROSS = range(3)
"""Copies by the asynchronous engine: into shared memory, out of it, into another block's."""
MAP_WORDS, M_SIZES, M_STRIDES, M_BOX, M_LOWER, M_UPPER = 32, 5, 10, 15, 20, 23
"""A tensor map: its place among the parameters, address, bytes of an element, rank, whether it is an im2col map; then
the numbers of each dimension, innermost first. An im2col map's box is channels and places."""
FAR = 0x7FFF0000
"""Upper half of the addresses of other blocks' shared memory."""

ROWS, UNIFORM_ROW, ZERO_ROW, POOL_ROW = 320, 256, 255, 320
"""Registers of a warp: R0 to R254 and zero, then the uniform ones and zero; after them the pool of constants."""
PREDICATES = 16
NEG, INT_ABS, NOT, FNEG, FABS = 1, 2, 4, 8, 16
TO_REGISTER, AS_FLOAT = 32, 64
"""Flags of FSET, a comparison whose answer is a number: all ones, or the float 1."""
IF_ORDINARY, UNLESS_ORDINARY = 32, 64
"""Flags of ISETP: it holds, or does not, of numbers whose reciprocal or square root needs no special care."""
UPPER, HALF_NEG, HALF_ABS = 1, 2, 4
"""Flags of a conversion from half precision: the register's upper half, less than nothing, without its sign."""

FRAGMENTS = 40
WARP_WORDS = 8 + 16 + 3 * FRAGMENTS
"""State of a warp: counts, the reconvergence registers, then pc, lanes and reason to wait of each part of the warp."""
PARTS, LIVE, CURRENT, CHUNK, AT, STATUS, BARRIER, FIRST_CHUNK, BREGS = 0, 1, 2, 3, 4, 5, 6, 7, 8
READY, AT_SYNC, AT_BARRIER = -1, 100, 200
RUNNING, WAITING, FINISHED = 0, 1, 2
OK, NO_ROOM, LOST, STUCK, OVER_BUDGET, UNKNOWN, NO_MAP = 0, 1, 2, 3, 4, 5, 6
"""How a block ended: done; more room is needed for the stream, call again; an instruction that nobody can follow; all
warps wait; too many instructions; a way or an address depends on a value that nobody here computed; a box whose map is
no parameter, or that is too large."""

NOT_MINE = 2
CHUNK_WORDS, MARGIN, BULK_MARGIN = 1024, 72, 600
"""STREAM: per warp a list of chunks, each with the next one's number in its last word. A word `start | count << 24 |
lanes << 48` says that `count` instructions from `start` on were issued for so many lanes. If the last one has an event,
a word `entries | wavefronts << 16 | lanes << 32` follows, then the entries: `line << 4 | sectors`, of 128 and 32
bytes."""
STATE_WORDS = 24
S_USED, S_ISSUED, S_NEXT, S_LOST, S_BUDGET, S_WARPS, S_THREADS, S_ROOM = range(8)
S_COUNT, S_WORDS, S_AGAIN, S_DOUBT = 8, 9, 10, 12
"""Of a block; from S_DOUBT on, for each kind of memory, whether something unknown was stored there."""
LAUNCH_WORDS = 16
L_NX, L_NY, L_NZ, L_BX, L_BY, L_BZ, L_ARRAYS, L_CODE = range(8)
L_SHARED, L_CONST, L_LOCAL, L_TAINT, L_RANK, L_MAPS, L_OPEN = range(8, 15)
"""Of a launch; L_OPEN: whether there are arrays whose contents nobody knows: their place in the copy is -1."""
