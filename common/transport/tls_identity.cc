#include "common/transport/tls_identity.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <vector>

#include "common/base/file_descriptor.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/transport/certificate.h"
#include "common/transport/transport_limits.h"

namespace numoe {
namespace {

constexpr std::chrono::milliseconds kLookInterval(1'010);  // a little longer than WatchedFile's interval

absl::Status Wrong(const std::string& flag, const std::string& path, std::string_view found,
                   std::string_view expected) {
  return absl::InvalidArgumentError(fmt::format("{}={}: {}; expected {}", flag, path, found, expected));
}

std::string Words(const absl::Status& status) { return std::string(status.message()); }

absl::StatusOr<std::string> ReadPem(const std::string& flag, const std::string& path) {
  struct stat info {};
  // It does not wait for a writer if the path is a FIFO.
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0 || fstat(file.get(), &info) != 0)
    return Wrong(flag, path, std::strerror(errno), "a PEM file that this process may read");
  if (!S_ISREG(info.st_mode)) return Wrong(flag, path, "is not a regular file", "a PEM file");
  if (static_cast<uint64_t>(info.st_size) > limits::kTlsFileBytesMax) {
    return Wrong(flag, path, fmt::format("has {} bytes", info.st_size),
                 fmt::format("a PEM file of at most {}", limits::kTlsFileBytesMax));
  }
  std::string pem(static_cast<size_t>(info.st_size), '\0');
  const ssize_t got = pread(file.get(), pem.data(), pem.size(), 0);
  if (got < 0) return Wrong(flag, path, std::strerror(errno), "a PEM file that can be read");
  pem.resize(static_cast<size_t>(got));
  return pem;
}

absl::Status CheckCertificate(const std::string& flag, const std::string& path, X509& certificate,
                              TlsRole role) {
  if (const absl::Status valid = CheckValidity(certificate); !valid.ok()) {
    return Wrong(flag, path, fmt::format("{} {}", DescribeCertificate(certificate), Words(valid)),
                 "one that is valid now: renew it (or set this host's clock)");
  }
  const bool server = role == TlsRole::kServer;
  const int purpose = server ? X509_PURPOSE_SSL_SERVER : X509_PURPOSE_SSL_CLIENT;
  const bool fits = X509_check_purpose(&certificate, purpose, /*ca=*/0) == 1;
  ERR_clear_error();
  if (fits) return absl::OkStatus();
  return Wrong(flag, path,
               fmt::format("the extended key usage of {} forbids {}", DescribeCertificate(certificate),
                           server ? "serving" : "to be a client"),
               server ? "one with serverAuth" : "one with clientAuth");
}

absl::Status CheckCas(const std::string& flag, const std::string& path, const std::string& pem) {
  const absl::StatusOr<std::vector<Certificate>> cas = ParseCertificates(pem);
  if (!cas.ok()) return Wrong(flag, path, Words(cas.status()), "the CAs' certificates");
  absl::Status why;
  for (const Certificate& ca : *cas) {
    why = CheckValidity(*ca);
    if (why.ok()) return why;
  }
  return Wrong(flag, path, fmt::format("{} {}", DescribeCertificate(*cas->back()), Words(why)),
               "at least one CA that is valid now");
}

}  // namespace

absl::Status CheckAllOrNone(const TlsFiles& files) {
  std::string given, missing;
  for (const auto& [name, path] :
       {std::pair("certfile", &files.certificate), std::pair("keyfile", &files.key),
        std::pair("ca-certs", &files.ca_certs)}) {
    std::string& list = path->empty() ? missing : given;
    list += fmt::format("{}--{}ssl-{}", list.empty() ? "" : ", ", files.flag_prefix, name);
  }
  if (given.empty() || missing.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{} without {}: expected all three, or none for plain text", given, missing));
}

absl::StatusOr<TlsIdentity> ReadTlsIdentity(const TlsFiles& files, TlsRole role) {
  const std::string prefix = "--" + files.flag_prefix;
  const std::string certfile = prefix + "ssl-certfile", keyfile = prefix + "ssl-keyfile",
                    ca_certs = prefix + "ssl-ca-certs";
  TlsIdentity identity;
  ASSIGN_OR_RETURN(identity.certificate_pem, ReadPem(certfile, files.certificate));
  ASSIGN_OR_RETURN(identity.key_pem, ReadPem(keyfile, files.key));
  ASSIGN_OR_RETURN(identity.ca_pem, ReadPem(ca_certs, files.ca_certs));
  const absl::StatusOr<std::vector<Certificate>> chain = ParseCertificates(identity.certificate_pem);
  if (!chain.ok())
    return Wrong(certfile, files.certificate, Words(chain.status()), "the certificate, then its chain");
  X509& own = *chain->front();
  RETURN_IF_ERROR(CheckCertificate(certfile, files.certificate, own, role));
  const absl::StatusOr<PrivateKey> key = ParsePrivateKey(identity.key_pem);
  if (!key.ok()) return Wrong(keyfile, files.key, Words(key.status()), "the certificate's key");
  const bool pair = X509_check_private_key(&own, key->get()) == 1;
  ERR_clear_error();
  if (!pair) {
    return Wrong(keyfile, files.key,
                 fmt::format("is not the key of {} ({})", files.certificate, DescribeCertificate(own)),
                 "a certificate and the key that belongs to it");
  }
  RETURN_IF_ERROR(CheckCas(ca_certs, files.ca_certs, identity.ca_pem));
  identity.description = DescribeCertificate(own);
  identity.expires_s = ExpiryOf(own);
  return identity;
}

TlsIdentityWatch::TlsIdentityWatch(const TlsFiles& files, TlsRole role)
    : files_(files),
      role_(role),
      certificate_(files.certificate),
      key_(files.key),
      ca_certs_(files.ca_certs) {}

absl::StatusOr<std::shared_ptr<TlsIdentityWatch>> TlsIdentityWatch::Open(const TlsFiles& files,
                                                                         TlsRole role) {
  // The watches begin before the files are read, so that a change in between is noticed later.
  std::shared_ptr<TlsIdentityWatch> watch(new TlsIdentityWatch(files, role));
  ASSIGN_OR_RETURN(TlsIdentity identity, ReadTlsIdentity(files, role));
  LogInfo("--{}ssl-certfile: {}", files.flag_prefix, identity.description);
  {
    const MutexLock lock(watch->mutex_);
    watch->current_ = std::make_shared<const TlsIdentity>(std::move(identity));
  }
  watch->thread_ = std::thread([watch = watch.get()] { watch->Watch(); });
  return watch;
}

TlsIdentityWatch::~TlsIdentityWatch() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  stopped_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<const TlsIdentity> TlsIdentityWatch::Current() const {
  const MutexLock lock(mutex_);
  return current_;
}

void TlsIdentityWatch::Watch() {
  pthread_setname_np(pthread_self(), "tls-watch");
  MutexLock lock(mutex_);
  while (true) {
    const auto next_look = std::chrono::steady_clock::now() + kLookInterval;
    while (!stop_ && stopped_.WaitUntil(mutex_, next_look)) {
    }
    if (stop_) return;
    lock.Unlock();
    Check();
    lock.Lock();
  }
}

void TlsIdentityWatch::Check() {
  bool changed = certificate_.Changed();
  changed |= key_.Changed();
  changed |= ca_certs_.Changed();
  if (!changed) return;
  absl::StatusOr<TlsIdentity> fresh = ReadTlsIdentity(files_, role_);
  if (!fresh.ok()) return LogError("{}; the files that were read before stay in use", Words(fresh.status()));
  LogInfo("--{}ssl-certfile: the changed file is used from now on: {}", files_.flag_prefix,
          fresh->description);
  const MutexLock lock(mutex_);
  current_ = std::make_shared<const TlsIdentity>(*std::move(fresh));
}

}  // namespace numoe
