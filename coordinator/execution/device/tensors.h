// Handles of tensors, weights and caches on a device, with which the model names them, and the arguments of
// operations.
//
// Handles are opaque numbers that a DeviceStore (store.h) returns and its device's steps (step.h) accept;
// they are valid as long as the store. Sizes are in values, not bytes. Nothing here owns memory.
#pragma once

#include <cstdint>

#include "common/base/ids.h"
#include "coordinator/execution/device/cache_type.h"

namespace numoe::execution {

/// What a tensor is used for, so that a device can choose its element type: the inputs of matrix products may
/// be rounded, but sums over layers and logits must not be.
enum class TensorUse : uint8_t { kActivation, kResidual, kLogits };

/// Activations: `cols` values for each token of a step. Rows are allocated for the largest step.
struct Tensor {
  int id = -1;
  int cols = 0;
};
/// A dense weight matrix [rows = outputs, cols = inputs].
struct Matrix {
  int id = -1;
  int rows = 0;
  int cols = 0;
};
/// The two halves of a SwiGLU, gate and up, each [rows, cols].
struct GatedMatrix {
  int id = -1;
  int rows = 0;
  int cols = 0;
};
/// One matrix [rows, cols] per attention head (the two halves of MLA's kv_b_proj).
struct HeadMatrices {
  int id = -1;
  int heads = 0;
  int rows = 0;
  int cols = 0;
};
/// A norm weight or a bias, fp32.
struct Vector {
  int id = -1;
  int size = 0;
};
/// Rotation angles: inverse frequencies and the factor of cosines and sines, as planned by
/// coordinator/execution/attention/rope.h.
struct RopeTable {
  int id = -1;
  int dim = 0;
};
/// The gate's weight (fp32) and, for noaux_tc, the selection bias.
struct Gate {
  int id = -1;
  int experts = 0;
};
/// The selected experts of every token of a step and their weights in the sum: [tokens, experts_per_token].
struct RouteTable {
  int id = -1;
  int experts_per_token = 0;
};

/// A view of a tensor's channels as `heads` windows: window h starts at channel h * stride + offset.
struct HeadView {
  Tensor tensor;
  int heads = 1;
  int stride = 0;
  int offset = 0;
};

/// out = matrix * in, or out += matrix * in. `out` is one window, as wide as the matrix has rows.
struct LinearTarget {
  Matrix matrix;
  HeadView out;
  bool accumulate = false;
};

/// The row of one token in a layer's cache: keys [heads, key_width], then values [heads, value_width]; with a
/// value_width of 0 the values are the first channels of the keys (MLA).
struct CacheRow {
  int heads = 1;
  int key_width = 0;
  int value_width = 0;
  int plain_width = 0;  // the last channels of a key, which are BF16 in any cache (MLA's rotated ones)

  int width() const { return heads * (key_width + value_width); }
  bool operator==(const CacheRow&) const = default;
};

/// A cache has a row for each token of a sequence in each of its layers. A model has one cache for each kind
/// of row that its layers store; all caches are divided into the same blocks and share one block table.
struct CacheShape {
  int layers = 0;
  CacheRow row;
  int query_heads = 0;  // the number of query heads that attend to each layer
};
/// One layer of a cache. Its number counts only the layers that store rows in this cache, not all layers of
/// the model.
struct CachePlace {
  int cache = -1;
  int layer = 0;
};
/// A cache that was requested with DeviceStore::NewCache.
struct Cache {
  int id = -1;
  int layers = 0;
  int width = 0;  // values per row

  CachePlace At(int layer) const { return {id, layer}; }
};

/// The data type of all caches and the number and size of their blocks.
struct KvCacheSize {
  CacheType type = CacheType::kBf16;
  int blocks = 0;
  int block_tokens = 0;
};

/// Causal attention of a step's queries over their sequences' cache rows.
struct AttendArgs {
  CachePlace cache;
  Tensor query;  // [tokens, heads * key_width]
  Tensor out;    // [tokens, heads * value_width]
  int heads = 0;
  int key_width = 0;
  int value_width = 0;
  int kv_heads = 1;           // each cache head is shared by heads / kv_heads query heads
  bool value_in_key = false;  // the value is the first value_width channels of the key
  float scale = 1.0f;         // multiplies q.k before softmax
};

/// Causal multi-head latent attention (https://arxiv.org/abs/2405.04434). A key in the cache consists of the
/// latent c [latent] and the shared rotated key k_rope [rope]. For head h with query [q_nope, q_rope], where
/// q_rope is already rotated: score = scale * (q_nope . W_UK c + q_rope . k_rope), out = W_UV
/// (softmax-weighted sum of c). The device chooses the order of the multiplications.
struct LatentAttendArgs {
  CachePlace cache;
  Tensor query;               // [tokens, heads * (nope + rope)]
  Tensor out;                 // [tokens, heads * value]
  Tensor absorbed;            // [tokens, heads * (latent + rope)], scratch
  Tensor context;             // [tokens, heads * latent], scratch
  HeadMatrices key_up;        // W_UK   [heads, nope, latent]
  HeadMatrices key_absorbed;  // W_UK^T [heads, latent, nope]
  HeadMatrices value_up;      // W_UV   [heads, value, latent]
  float scale = 1.0f;
};

}  // namespace numoe::execution
