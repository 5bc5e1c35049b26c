#include "coordinator/execution/device/cuda/cublas_lt.h"

#include <cublasLt.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <map>
#include <tuple>

#include "common/base/check.h"
#include "common/base/status.h"

namespace numoe::execution::cuda {
namespace {

// A plan is valid for one number of rows, and prompts have many lengths: this is enough for a dozen or two
// matrices times a hundred lengths.
constexpr size_t kPlansMax = 2048;
constexpr uint32_t kAlignment = 16;  // of the operands; without this setting the library assumes 256 bytes

// The library's functions that are used.
struct Library {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulDescCreate) desc_create;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set;
  decltype(&cublasLtMatrixLayoutCreate) layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
};

absl::StatusOr<Library> LoadLibrary() {
  void* handle = nullptr;
  for (const char* name : {"libcublasLt.so.13", "libcublasLt.so"}) {
    handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) break;
  }
  if (handle == nullptr) {
    return absl::FailedPreconditionError(
        fmt::format("found no cuBLASLt ({}), expected CUDA 13's libcublas; install it, or add its folder to "
                    "LD_LIBRARY_PATH",
                    dlerror()));
  }
  std::string missing;
  const auto load = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
    if (function == nullptr) missing = name;
  };
  Library library;
  load(library.create, "cublasLtCreate");
  load(library.destroy, "cublasLtDestroy");
  load(library.matmul, "cublasLtMatmul");
  load(library.desc_create, "cublasLtMatmulDescCreate");
  load(library.desc_destroy, "cublasLtMatmulDescDestroy");
  load(library.desc_set, "cublasLtMatmulDescSetAttribute");
  load(library.layout_create, "cublasLtMatrixLayoutCreate");
  load(library.layout_destroy, "cublasLtMatrixLayoutDestroy");
  load(library.preference_create, "cublasLtMatmulPreferenceCreate");
  load(library.preference_destroy, "cublasLtMatmulPreferenceDestroy");
  load(library.preference_set, "cublasLtMatmulPreferenceSetAttribute");
  load(library.heuristic, "cublasLtMatmulAlgoGetHeuristic");
  if (missing.empty()) return library;
  return absl::FailedPreconditionError(fmt::format(
      "cuBLASLt has no function {}, expected CUDA 13's libcublas; install that version", missing));
}

class LoadedCublasLt final : public CublasLt {
 public:
  LoadedCublasLt(const Library& library, void* workspace) : library_(library), workspace_(workspace) {}

  ~LoadedCublasLt() override {
    Forget();
    if (handle_ != nullptr) library_.destroy(handle_);
  }

  absl::Status Start() { return Check(library_.create(&handle_), "cublasLtCreate"); }

  absl::Status Multiply(const MatrixProduct& p, Stream stream) override {
    NUMOE_CHECK((Address(p.a) | Address(p.b) | Address(p.c)) % kAlignment == 0);
    const Shape shape{p.rows, p.columns, p.depth, p.a_stride, p.b_stride, p.c_stride, p.c_is_float};
    auto found = plans_.find(shape);
    if (found == plans_.end()) {
      if (plans_.size() == kPlansMax) Forget();
      Plan plan;
      const absl::Status made = MakePlan(p, plan);
      if (!made.ok()) {
        Destroy(plan);
        return Annotate(made, fmt::format("product [{} x {}] of depth {}", p.rows, p.columns, p.depth));
      }
      found = plans_.emplace(shape, plan).first;
    }
    const Plan& plan = found->second;
    const float one = 1.0f;
    const float beta = p.accumulate ? 1.0f : 0.0f;
    return Check(library_.matmul(handle_, plan.desc, &one, p.b, plan.b, p.a, plan.a, &beta, p.c, plan.c, p.c,
                                 plan.c, &plan.algorithm, workspace_, kWorkspaceBytes, stream),
                 "cublasLtMatmul");
  }

 private:
  using Shape = std::tuple<int, int, int, int64_t, int64_t, int64_t, bool>;
  struct Plan {
    cublasLtMatmulDesc_t desc = nullptr;
    cublasLtMatrixLayout_t a = nullptr;
    cublasLtMatrixLayout_t b = nullptr;
    cublasLtMatrixLayout_t c = nullptr;
    cublasLtMatmulAlgo_t algorithm{};
  };

  static uintptr_t Address(const void* data) { return reinterpret_cast<uintptr_t>(data); }

  static absl::Status Check(cublasStatus_t code, const char* call) {
    if (code == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
    return absl::InternalError(fmt::format("{} failed with code {}", call, static_cast<int>(code)));
  }

  // The library's matrices are column-major, so it computes c^T [columns, rows] = b . a^T, for which the
  // operands need no rearrangement.
  absl::Status MakePlan(const MatrixProduct& p, Plan& plan) {
    RETURN_IF_ERROR(
        Check(library_.desc_create(&plan.desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate"));
    const cublasOperation_t transposed = CUBLAS_OP_T;
    RETURN_IF_ERROR(
        Check(library_.desc_set(plan.desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed),
              "cublasLtMatmulDescSetAttribute"));
    const auto layout = [&](cublasLtMatrixLayout_t& out, cudaDataType type, int rows, int columns,
                            int64_t stride) {
      return Check(library_.layout_create(&out, type, static_cast<uint64_t>(rows),
                                          static_cast<uint64_t>(columns), stride),
                   "cublasLtMatrixLayoutCreate");
    };
    RETURN_IF_ERROR(layout(plan.b, CUDA_R_16BF, p.depth, p.columns, p.b_stride));
    RETURN_IF_ERROR(layout(plan.a, CUDA_R_16BF, p.depth, p.rows, p.a_stride));
    RETURN_IF_ERROR(layout(plan.c, p.c_is_float ? CUDA_R_32F : CUDA_R_16BF, p.columns, p.rows, p.c_stride));
    cublasLtMatmulPreference_t preference = nullptr;
    RETURN_IF_ERROR(Check(library_.preference_create(&preference), "cublasLtMatmulPreferenceCreate"));
    cublasLtMatmulHeuristicResult_t best{};
    int found = 0;
    cublasStatus_t code = Limit(preference);
    if (code == CUBLAS_STATUS_SUCCESS) {
      code = library_.heuristic(handle_, plan.desc, plan.b, plan.a, plan.c, plan.c, preference, 1, &best,
                                &found);
    }
    library_.preference_destroy(preference);
    RETURN_IF_ERROR(Check(code, "cublasLtMatmulAlgoGetHeuristic"));
    if (found == 0) return absl::InternalError("cuBLASLt has no algorithm for this product");
    plan.algorithm = best.algo;
    return absl::OkStatus();
  }

  cublasStatus_t Limit(cublasLtMatmulPreference_t preference) const {
    const uint64_t workspace = kWorkspaceBytes;
    cublasStatus_t code = library_.preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                  &workspace, sizeof workspace);
    for (const cublasLtMatmulPreferenceAttributes_t operand :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      if (code == CUBLAS_STATUS_SUCCESS)
        code = library_.preference_set(preference, operand, &kAlignment, sizeof kAlignment);
    }
    return code;
  }

  void Forget() {
    for (auto& [shape, plan] : plans_) Destroy(plan);
    plans_.clear();
  }

  void Destroy(Plan& plan) {
    for (cublasLtMatrixLayout_t layout : {plan.a, plan.b, plan.c}) {
      if (layout != nullptr) library_.layout_destroy(layout);
    }
    if (plan.desc != nullptr) library_.desc_destroy(plan.desc);
  }

  const Library library_;
  void* const workspace_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<Shape, Plan> plans_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CublasLt>> CublasLt::Open(void* workspace) {
  ASSIGN_OR_RETURN(const Library library, LoadLibrary());
  auto loaded = std::make_unique<LoadedCublasLt>(library, workspace);
  RETURN_IF_ERROR(loaded->Start());
  return loaded;
}

}  // namespace numoe::execution::cuda
