#include "coordinator/execution/device/cuda/logit_reader.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/status.h"

namespace numoe::execution::cuda {

absl::StatusOr<std::unique_ptr<LogitReader>> LogitReader::Create(const CudaStore& store,
                                                                 SamplingTables& sampling, Runtime& runtime,
                                                                 Stream stream) {
  auto reader = std::unique_ptr<LogitReader>(new LogitReader(store, sampling, runtime, stream));
  size_t values = 0;
  for (const CudaStore::StoredTensor& tensor : store.tensors()) {
    if (tensor.use == TensorUse::kLogits)
      values = std::max(values, static_cast<size_t>(tensor.rows) * static_cast<size_t>(tensor.cols));
  }
  ASSIGN_OR_RETURN(reader->host_, runtime.AllocateHost(std::max<size_t>(values * sizeof(float), 1)));
  return reader;
}

absl::Status LogitReader::Read(Tensor logits, int rows) {
  const CudaStore::StoredTensor& stored = store_.tensor(logits);
  NUMOE_CHECK(stored.use == TensorUse::kLogits && rows <= stored.rows);
  const auto width = static_cast<size_t>(logits.cols), count = static_cast<size_t>(rows);
  values_ = 0;
  for (size_t begin = 0, end = 0; begin < count; begin = end + 1) {
    for (end = begin; end < count && !sampling_.OnDevice(end);) ++end;
    const size_t values = (end - begin) * width;
    if (values == 0) continue;
    NUMOE_CHECK_LE((values_ + values) * sizeof(float), host_->bytes());
    runtime_.Copy(host_->host() + values_ * sizeof(float),
                  stored.memory->device() + begin * width * sizeof(float), values * sizeof(float), stream_);
    values_ += values;
  }
  sampling_.Download(runtime_, stream_);
  return runtime_.Synchronize(stream_);
}

StepOutput LogitReader::output() {
  return {.logits = {reinterpret_cast<const float*>(host_->host()), values_}, .drawn = sampling_.Read()};
}

}  // namespace numoe::execution::cuda
