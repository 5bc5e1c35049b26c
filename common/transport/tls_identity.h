// What one end of a connection between hosts shows of itself, and whom it believes: a certificate with its
// chain, the key, and the CAs that the other end's certificate must come from. Mutual TLS: both ends have
// one.
//
// Read from PEM files, and checked before anything that takes long: whether the files can be read, the key is
// the certificate's, the certificate is within its time and for this end (extended key usage), and at least
// one CA is within its time. INVALID_ARGUMENT names the flag and the file, what was found and what to do.
// TlsIdentityWatch takes renewed files up, says so in the log, and keeps what it has where the new ones are
// wrong; it looks once a second, on a thread of its own.
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

/// INVALID_ARGUMENT: some of the three are given, but not all.
absl::Status CheckAllOrNone(const TlsFiles& files);

struct TlsIdentity {
  std::string certificate_pem;  // and its chain
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
  /// What is in use now. Any thread.
  std::shared_ptr<const TlsIdentity> Current() const;

 private:
  TlsIdentityWatch(const TlsFiles& files, TlsRole role);
  void Watch();
  void Look();

  const TlsFiles files_;
  const TlsRole role_;
  WatchedFile certificate_, key_, ca_certs_;  // the thread's
  mutable Mutex mutex_;
  CondVar stopped_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<const TlsIdentity> current_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace numoe
