#include "coordinator/execution/device/cpu/cpu_device.h"

#include <fmt/format.h>

#include "common/base/status.h"
#include "coordinator/execution/device/cpu/cpu_step.h"

namespace numoe::execution {

absl::StatusOr<std::unique_ptr<CpuDevice>> CpuDevice::Create(const CpuDeviceOptions& options) {
  ASSIGN_OR_RETURN(const Isa isa, SelectIsa(options.isa));
  return std::unique_ptr<CpuDevice>(new CpuDevice(options, isa));
}

CpuDevice::CpuDevice(const CpuDeviceOptions& options, Isa isa)
    : isa_(isa),
      precision_(options.precision),
      pool_({.name = "device", .cpus = options.cpus}),
      store_({.step_tokens_max = options.step_tokens_max,
              .dense_format = options.dense_format,
              .measure_only = options.measure_only},
             pool_),
      linear_(isa, pool_),
      attention_(isa, pool_),
      latent_attention_(attention_, linear_, pool_) {}

std::unique_ptr<Step> CpuDevice::Begin(const StepLayout& layout) {
  return std::make_unique<CpuStep>(layout, CpuParts{.store = store_,
                                                    .pool = pool_,
                                                    .isa = isa_,
                                                    .precision = precision_,
                                                    .ops = VectorOpsFor(isa_),
                                                    .linear = linear_,
                                                    .attention = attention_,
                                                    .latent_attention = latent_attention_,
                                                    .gate_logits = gate_logits_,
                                                    .cos_sin = cos_sin_,
                                                    .experts = experts_});
}

std::string CpuDevice::Describe() const {
  return fmt::format("cpu, isa {}, {} threads", IsaName(isa_), pool_.threads());
}

}  // namespace numoe::execution
