// Every way in which the three files of an identity can be wrong, reported with flag and file; and their
// renewal.
#include "common/transport/tls_identity.h"

#include <sys/stat.h>

#include <fstream>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/test_authority.h"

namespace numoe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class TlsIdentityTest : public ::testing::Test {
 protected:
  TlsFiles Write(const TestPair& pair, const std::string& ca_pem, const std::string& prefix = "") const {
    return WriteIdentity(folder_.path(), "own", pair, ca_pem, prefix);
  }
  static std::string Refusal(const TlsFiles& files, TlsRole role = TlsRole::kServer) {
    return ReadTlsIdentity(files, role).status().ToString();
  }

  TemporaryFolder folder_;
  TestAuthority authority_{"root"};
};

TEST_F(TlsIdentityTest, AllThreeOrNone) {
  EXPECT_TRUE(CheckAllOrNone({}).ok());
  EXPECT_TRUE(CheckAllOrNone({.certificate = "a", .key = "b", .ca_certs = "c"}).ok());
  EXPECT_THAT(
      CheckAllOrNone({.flag_prefix = "worker-", .key = "b"}).ToString(),
      HasSubstr("--worker-ssl-keyfile without --worker-ssl-certfile, --worker-ssl-ca-certs: expected"));
  EXPECT_THAT(CheckAllOrNone({.certificate = "a", .key = "b"}).ToString(),
              HasSubstr("--ssl-certfile, --ssl-keyfile without --ssl-ca-certs"));
}

TEST_F(TlsIdentityTest, AGoodOneIsDescribed) {
  const TestPair pair = authority_.Issue({.name = "w0"});
  const auto identity = ReadTlsIdentity(Write(pair, authority_.pem()), TlsRole::kServer);
  ASSERT_TRUE(identity.ok()) << identity.status();
  EXPECT_EQ(identity->certificate_pem, pair.certificate_pem);
  EXPECT_THAT(identity->description, HasSubstr("CN=w0 for localhost, 127.0.0.1; issued by CN=root"));
  EXPECT_NEAR(static_cast<double>(identity->expires_s), static_cast<double>(std::time(nullptr)) + 3'600, 600);
}

TEST_F(TlsIdentityTest, FilesThatCannotBeReadAreNamed) {
  TlsFiles files = Write(authority_.Issue({}), authority_.pem(), "worker-");
  files.key = "/nonexistent/key.pem";
  EXPECT_THAT(Refusal(files), AllOf(HasSubstr("--worker-ssl-keyfile=/nonexistent/key.pem: No such file"),
                                    HasSubstr("expected a PEM file")));
  files.key = folder_.path();
  EXPECT_THAT(Refusal(files), HasSubstr("is not a regular file"));
  files.key = folder_.path() / "fifo";
  ASSERT_EQ(mkfifo(files.key.c_str(), 0600), 0);
  EXPECT_THAT(Refusal(files), HasSubstr("is not a regular file")) << "it must not wait for a writer";
  files.key = folder_.path() / "large";
  std::ofstream(files.key) << std::string((1 << 20) + 1, 'x');
  EXPECT_THAT(Refusal(files), HasSubstr("has 1048577 bytes; expected a PEM file of at most 1048576"));
  files.key = files.certificate;
  EXPECT_THAT(Refusal(files), HasSubstr("no private key in PEM without a passphrase"));
  std::swap(files.certificate, files.key);
  files.certificate = files.ca_certs + ".no";
  EXPECT_THAT(Refusal(files), HasSubstr("--worker-ssl-certfile=" + files.certificate));
}

TEST_F(TlsIdentityTest, AKeyOfAnotherCertificate) {
  const TestPair pair = authority_.Issue({.name = "w0"}), other = authority_.Issue({.name = "w1"});
  EXPECT_THAT(Refusal(Write({pair.certificate_pem, other.key_pem}, authority_.pem())),
              AllOf(HasSubstr("--ssl-keyfile="), HasSubstr("is not the key of"), HasSubstr("CN=w0"),
                    HasSubstr("a certificate and the key that belongs to it")));
}

TEST_F(TlsIdentityTest, TimeAndUseOfTheCertificate) {
  EXPECT_THAT(Refusal(Write(authority_.Issue({.from_s = -100, .until_s = -50}), authority_.pem())),
              AllOf(HasSubstr("--ssl-certfile="), HasSubstr("has expired at"), HasSubstr("renew it")));
  EXPECT_THAT(Refusal(Write(authority_.Issue({.from_s = 600}), authority_.pem())),
              HasSubstr("is not valid before"));
  const TlsFiles server = Write(authority_.Issue({.usage = "serverAuth"}), authority_.pem());
  EXPECT_TRUE(ReadTlsIdentity(server, TlsRole::kServer).ok());
  EXPECT_THAT(Refusal(server, TlsRole::kClient),
              AllOf(HasSubstr("extended key usage"), HasSubstr("clientAuth")));
  const TlsFiles client = Write(authority_.Issue({.usage = "clientAuth"}), authority_.pem());
  EXPECT_TRUE(ReadTlsIdentity(client, TlsRole::kClient).ok());
  EXPECT_THAT(Refusal(client), HasSubstr("serverAuth"));
}

TEST_F(TlsIdentityTest, OneOfTheCasHasToBeValid) {
  const TestAuthority expired("old root", /*until_s=*/-60);
  const TestPair pair = authority_.Issue({});
  EXPECT_THAT(Refusal(Write(pair, expired.pem())),
              AllOf(HasSubstr("--ssl-ca-certs="), HasSubstr("CN=old root"), HasSubstr("has expired")));
  EXPECT_TRUE(ReadTlsIdentity(Write(pair, expired.pem() + authority_.pem()), TlsRole::kServer).ok());
  EXPECT_THAT(Refusal(Write(pair, pair.key_pem)), HasSubstr("no certificate in PEM"));
}

// Waits until `done`. A test that waits in vain fails, however slow the machine is.
bool Await(const std::function<bool()>& done) {
  for (int i = 0; i < 6'000; ++i) {
    if (done()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

TEST_F(TlsIdentityTest, RenewedFilesAreUsedAndBrokenOnesAreNot) {
  const TestPair first = authority_.Issue({.name = "first"}), second = authority_.Issue({.name = "second"});
  const TlsFiles files = Write(first, authority_.pem());
  const auto watch = TlsIdentityWatch::Open(files, TlsRole::kServer);
  ASSERT_TRUE(watch.ok()) << watch.status();
  EXPECT_EQ((*watch)->Current()->certificate_pem, first.certificate_pem);
  // The key is replaced before the certificate, so for a moment they do not belong together.
  WriteIdentity(folder_.path(), "own", {first.certificate_pem, second.key_pem}, authority_.pem());
  std::this_thread::sleep_for(std::chrono::milliseconds(2'500));  // it checks once a second
  EXPECT_EQ((*watch)->Current()->key_pem, first.key_pem);
  WriteIdentity(folder_.path(), "own", second, authority_.pem());
  EXPECT_TRUE(Await([&] { return (*watch)->Current()->certificate_pem == second.certificate_pem; }));
  EXPECT_EQ((*watch)->Current()->key_pem, second.key_pem);
  std::filesystem::remove(files.certificate);
  EXPECT_EQ((*watch)->Current()->certificate_pem, second.certificate_pem);
}

}  // namespace
}  // namespace numoe
