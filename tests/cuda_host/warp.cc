#include "tests/cuda_host/warp.h"

namespace numoe::cuda_host {
namespace {

// Kinds of meetings: lanes that wait in different operations never complete each other's operation.
constexpr int kShuffleKind = 1;  // + Shuffle
constexpr int kReduceKind = 16;  // + Reduction
constexpr int kMatchKind = 32;

struct ShuffleLane {
  uint64_t value, result;
  int source;
};
struct ReduceLane {
  Reduction how;
  unsigned value, result;
};
struct MatchLane {
  uint64_t value;
  unsigned result;
};

void MeetShuffle(void* const* arguments, unsigned lanes) {
  for (int lane = 0; lane < kWarpLanes; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    ShuffleLane& mine = *static_cast<ShuffleLane*>(arguments[lane]);
    mine.result = ~uint64_t{0};
    if ((lanes >> mine.source & 1) != 0) {
      mine.result = static_cast<const ShuffleLane*>(arguments[mine.source])->value;
    }
  }
}

unsigned Combine(Reduction how, unsigned a, unsigned b) {
  switch (how) {
    case Reduction::kAdd:
      return a + b;
    case Reduction::kMinSigned:
      return static_cast<int>(b) < static_cast<int>(a) ? b : a;
    case Reduction::kMaxSigned:
      return static_cast<int>(b) > static_cast<int>(a) ? b : a;
    case Reduction::kMin:
      return b < a ? b : a;
    case Reduction::kMax:
      return b > a ? b : a;
    case Reduction::kAnd:
      return a & b;
    case Reduction::kOr:
    case Reduction::kBallot:
      return a | b;
    case Reduction::kXor:
      return a ^ b;
  }
  __builtin_unreachable();
}

void MeetReduce(void* const* arguments, unsigned lanes) {
  bool first = true;
  unsigned result = 0;
  for (int lane = 0; lane < kWarpLanes; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    const ReduceLane& one = *static_cast<const ReduceLane*>(arguments[lane]);
    const unsigned value =
        one.how != Reduction::kBallot ? one.value : static_cast<unsigned>(one.value != 0) << lane;
    result = first ? value : Combine(one.how, result, value);
    first = false;
  }
  for (int lane = 0; lane < kWarpLanes; ++lane) {
    if ((lanes >> lane & 1) != 0) static_cast<ReduceLane*>(arguments[lane])->result = result;
  }
}

void MeetMatch(void* const* arguments, unsigned lanes) {
  for (int lane = 0; lane < kWarpLanes; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    MatchLane& mine = *static_cast<MatchLane*>(arguments[lane]);
    mine.result = 0;
    for (int other = 0; other < kWarpLanes; ++other) {
      if ((lanes >> other & 1) == 0) continue;
      if (static_cast<const MatchLane*>(arguments[other])->value == mine.value) mine.result |= 1u << other;
    }
  }
}

/// CUDA C++ programming guide, "Warp Shuffle Functions": a source outside the segment means the lane's own
/// value, except that an index wraps around.
int SourceLane(Shuffle how, int lane, int operand, int width) {
  const int first = lane & ~(width - 1);
  const int last = first + width - 1;
  switch (how) {
    case Shuffle::kIndex:
      return first | (operand & (width - 1));
    case Shuffle::kXor:
      return (lane ^ operand) > last ? lane : lane ^ operand;
    case Shuffle::kDown:
      return lane + operand > last ? lane : lane + operand;
    case Shuffle::kUp:
      return lane - operand < first ? lane : lane - operand;
  }
  __builtin_unreachable();
}

}  // namespace

uint64_t ShuffleBits(Shuffle how, unsigned mask, uint64_t bits, int operand, int width, Place place) {
  constexpr const char* kNames[] = {"__shfl_sync", "__shfl_xor_sync", "__shfl_down_sync", "__shfl_up_sync"};
  Machine& machine = Machine::Current();
  ShuffleLane argument{bits, bits, SourceLane(how, machine.current().lane, operand, width)};
  machine.Meet(kShuffleKind + static_cast<int>(how), kNames[static_cast<int>(how)], mask, &argument,
               MeetShuffle, place);
  return argument.result;
}

unsigned ReduceBits(Reduction how, const char* name, unsigned mask, unsigned value, Place place) {
  ReduceLane argument{how, value, 0};
  Machine::Current().Meet(kReduceKind + static_cast<int>(how), name, mask, &argument, MeetReduce, place);
  return argument.result;
}

unsigned MatchBits(unsigned mask, uint64_t bits, Place place) {
  MatchLane argument{bits, 0};
  Machine::Current().Meet(kMatchKind, "__match_any_sync", mask, &argument, MeetMatch, place);
  return argument.result;
}

}  // namespace numoe::cuda_host
