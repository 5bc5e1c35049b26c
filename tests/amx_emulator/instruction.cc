#include "tests/amx_emulator/instruction.h"

#include <cstring>

namespace numoe::amx_emulator {
namespace {

enum Prefix : unsigned { kNoPrefix, k66, kF3, kF2 };  // VEX.pp

// The fields of a VEX instruction up to its ModRM byte.
struct Vex {
  Prefix prefix = kNoPrefix;
  unsigned opcode = 0;
  unsigned vvvv = 0;  // second register operand
  unsigned mod = 0;
  unsigned reg = 0;
  unsigned rm = 0;
  unsigned rm_low = 0;  // rm without its extension bit: 4 means a SIB byte, 5 with mod 0 RIP-relative
  bool index_high = false;
  bool base_high = false;
};

// Legacy prefixes that change how an address is formed.
struct AddressMode {
  bool bits32 = false;
  bool fs = false;
};

const uint8_t* SkipPrefixes(const uint8_t* p, AddressMode& mode) {
  for (;; ++p) {
    switch (*p) {
      case 0x67:
        mode.bits32 = true;
        break;
      case 0x64:
        mode.fs = true;
        break;
      case 0x26:  // segments without effect in 64-bit mode
      case 0x2e:
      case 0x36:
      case 0x3e:
        break;
      default:
        return p;
    }
  }
}

// Returns null unless it is a three-byte VEX prefix of map 0F38 with W = L = 0.
const uint8_t* ReadVex(const uint8_t* p, Vex& vex) {
  constexpr unsigned kMap0f38 = 2;
  if (p[0] != 0xc4 || (p[1] & 0x1fu) != kMap0f38 || (p[2] & 0x84u) != 0) return nullptr;
  const unsigned reg_high = (p[1] & 0x80u) == 0 ? 8 : 0;
  vex.index_high = (p[1] & 0x40u) == 0;
  vex.base_high = (p[1] & 0x20u) == 0;
  vex.prefix = static_cast<Prefix>(p[2] & 3u);
  vex.vvvv = ~(p[2] >> 3) & 15u;
  vex.opcode = p[3];
  const unsigned modrm = p[4];
  vex.mod = modrm >> 6;
  vex.reg = ((modrm >> 3) & 7u) + reg_high;
  vex.rm_low = modrm & 7u;
  vex.rm = vex.rm_low + (vex.base_high ? 8 : 0);
  return p + 5;
}

struct Address {
  uint64_t base = 0;   // without the index register
  uint64_t index = 0;  // scaled
  bool has_sib = false;
  bool rip_relative = false;
};

int64_t ReadDisplacement32(const uint8_t*& p) {
  int32_t value;
  std::memcpy(&value, p, sizeof value);
  p += sizeof value;
  return value;
}

// Decodes the memory operand after ModRM. RIP-relative and 8-bit displacements are the end of an AMX
// instruction, because there are no immediates.
Address ReadAddress(const uint8_t*& p, const Vex& vex, const Registers& registers) {
  Address out;
  bool base_is_displacement = vex.rm_low == 5 && vex.mod == 0;
  out.rip_relative = base_is_displacement;
  unsigned base = vex.rm;
  if (vex.rm_low == 4) {
    const unsigned sib = *p++;
    out.has_sib = true;
    out.rip_relative = false;
    const unsigned index = ((sib >> 3) & 7u) + (vex.index_high ? 8 : 0);
    if (index != 4) out.index = registers.general[index] << (sib >> 6);
    base = (sib & 7u) + (vex.base_high ? 8 : 0);
    base_is_displacement = (sib & 7u) == 5 && vex.mod == 0;
  }
  int64_t displacement = 0;
  if (base_is_displacement || vex.mod == 2) {
    displacement = ReadDisplacement32(p);
  } else if (vex.mod == 1) {
    displacement = static_cast<int8_t>(*p++);
  }
  if (out.rip_relative) {
    out.base = reinterpret_cast<uint64_t>(p);
  } else if (!base_is_displacement) {
    out.base = registers.general[base];
  }
  out.base += static_cast<uint64_t>(displacement);
  return out;
}

Op ConfigOp(const Vex& vex) {
  if (vex.vvvv != 0) return Op::kNone;
  if (vex.mod != 3) {
    if ((vex.reg & 7u) != 0) return Op::kNone;
    if (vex.prefix == kNoPrefix) return Op::kLdTileCfg;
    return vex.prefix == k66 ? Op::kStTileCfg : Op::kNone;
  }
  if (vex.rm_low != 0) return Op::kNone;
  if (vex.prefix == kF2) return Op::kTileZero;
  return vex.prefix == kNoPrefix && (vex.reg & 7u) == 0 ? Op::kTileRelease : Op::kNone;
}

Op MoveOp(const Vex& vex, const Address& address) {
  if (vex.mod == 3 || !address.has_sib || vex.vvvv != 0) return Op::kNone;
  switch (vex.prefix) {
    case kF2:
      return Op::kTileLoad;
    case k66:
      return Op::kTileLoadT1;
    case kF3:
      return Op::kTileStore;
    case kNoPrefix:
      break;
  }
  return Op::kNone;
}

Op DotOp(const Vex& vex) {
  if (vex.mod != 3) return Op::kNone;
  if (vex.opcode == 0x5c) return vex.prefix == kF3 ? Op::kDotBf16 : Op::kNone;
  constexpr Op kByPrefix[] = {Op::kDotUnsignedUnsigned, Op::kDotUnsignedSigned, Op::kDotSignedUnsigned,
                              Op::kDotSignedSigned};
  return kByPrefix[vex.prefix];
}

Op OpOf(const Vex& vex, const Address& address) {
  switch (vex.opcode) {
    case 0x49:
      return ConfigOp(vex);
    case 0x4b:
      return MoveOp(vex, address);
    case 0x5c:
    case 0x5e:
      return DotOp(vex);
    default:
      return Op::kNone;
  }
}

}  // namespace

const char* OpName(Op op) {
  constexpr const char* kNames[kOps] = {"none",      "ldtilecfg",   "sttilecfg",  "tilerelease", "tilezero",
                                        "tileloadd", "tileloaddt1", "tilestored", "tdpbssd",     "tdpbsud",
                                        "tdpbusd",   "tdpbuud",     "tdpbf16ps"};
  return kNames[static_cast<int>(op)];
}

Instruction Decode(const uint8_t* code, const Registers& registers) {
  Instruction out;
  AddressMode mode;
  Vex vex;
  const uint8_t* p = ReadVex(SkipPrefixes(code, mode), vex);
  if (p == nullptr) return out;
  Address address;
  if (vex.mod != 3) address = ReadAddress(p, vex, registers);
  out.op = OpOf(vex, address);
  if (out.op == Op::kNone) return out;
  out.length = static_cast<int>(p - code);
  out.tile = vex.reg;
  out.source_a = vex.rm;
  out.source_b = vex.vvvv;
  const bool is_config = out.op == Op::kLdTileCfg || out.op == Op::kStTileCfg;
  out.address = is_config ? address.base + address.index : address.base;
  out.stride = is_config ? 0 : address.index;
  if (mode.bits32) {
    out.address = static_cast<uint32_t>(out.address);
    out.stride = static_cast<uint32_t>(out.stride);
  }
  if (mode.fs) out.address += registers.fs_base;
  return out;
}

}  // namespace numoe::amx_emulator
