// The identity of one end of a connection between hosts, and the CAs that it trusts: a certificate with its
// chain, the key, and the CAs from which the other end's certificate must come. TLS is mutual: both ends have
// an identity.
//
// It is read from PEM files, and checked before anything that takes long: whether the files can be read,
// whether the key belongs to the certificate, whether the certificate is valid now and for this end (extended
// key usage), and whether at least one CA is valid now. INVALID_ARGUMENT names the flag and the file, what
// was found and what to do. TlsIdentityWatch uses renewed files and logs that; if the new ones are wrong, it
// keeps the old ones. It checks once a second, on a thread of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/base/watched_file.h"

namespace numoe {

enum class TlsRole : uint8_t { kServer, kClient };

/// Paths as flags give them: --PREFIXssl-certfile, --PREFIXssl-keyfile, --PREFIXssl-ca-certs.
struct TlsFiles {
  std::string flag_prefix;
  std::string certificate;
  std::string key;
  std::string ca_certs;

  bool given() const { return !certificate.empty() || !key.empty() || !ca_certs.empty(); }
};

/// INVALID_ARGUMENT if some of the three are given, but not all.
absl::Status CheckAllOrNone(const TlsFiles& files);

struct TlsIdentity {
  std::string certificate_pem;  // with its chain
  std::string key_pem;
  std::string ca_pem;
  std::string description;  // the certificate's subject, names, issuer and time
  int64_t expires_s = 0;    // Unix time
};

absl::StatusOr<TlsIdentity> ReadTlsIdentity(const TlsFiles& files, TlsRole role);

class TlsIdentityWatch {
 public:
  static absl::StatusOr<std::shared_ptr<TlsIdentityWatch>> Open(const TlsFiles& files, TlsRole role);
  ~TlsIdentityWatch();
  /// Returns the identity in use. Any thread.
  std::shared_ptr<const TlsIdentity> Current() const;

 private:
  TlsIdentityWatch(const TlsFiles& files, TlsRole role);
  void Watch();
  void Check();

  const TlsFiles files_;
  const TlsRole role_;
  WatchedFile certificate_, key_, ca_certs_;  // used by the thread only
  mutable Mutex mutex_;
  CondVar stopped_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<const TlsIdentity> current_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace numoe
