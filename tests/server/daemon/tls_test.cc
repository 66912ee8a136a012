// TLS and certificates between clients, workers and the coordinator.

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/time/clock.h"
#include "comera/v1/access_service.grpc.pb.h"
#include "common/rpc_channel.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "tests/security/certificates.h"
#include "tests/server/daemon/security_fixture.h"

namespace comera::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class TlsTest : public SecurityTest {
 protected:
  TlsTest() : certificates_(folder_.path()) {
    certificates_.Issue("server", "DNS:localhost,IP:127.0.0.1");
    options_.security.tls.certificate = certificates_.Certificate("server");
    options_.security.tls.key = certificates_.Key("server");
    options_.security.tls.refresh_seconds = 1;
    trusting_.ca_file = certificates_.Authority();
  }

  Code List(const ChannelSecurity& security) {
    const auto channel = OpenChannel(server_->address(), security, {});
    EXPECT_OK(channel);
    if (!channel.ok()) return Code::UNKNOWN;
    v1::ListJobsResponse response;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::seconds(10));
    return v1::TrainingService::NewStub(*channel)
        ->ListJobs(&context, {}, &response)
        .error_code();
  }

  // The fingerprint of the certificate that the server shows to new
  // connections.
  std::string Fingerprint() {
    const std::string out = folder_.path() + "/fingerprint";
    const std::string command =
        "openssl s_client -connect " + server_->address() +
        " -alpn h2 </dev/null 2>/dev/null | openssl x509 -noout -fingerprint "
        "-sha256 > " +
        out + " 2>/dev/null";
    (void)!std::system(command.c_str());
    std::stringstream text;
    text << std::ifstream(out).rdbuf();
    return text.str();
  }

  Certificates certificates_;
  ChannelSecurity trusting_;
};

TEST_F(TlsTest, EachSideKnowsTheOther) {
  Restart();
  EXPECT_EQ(List(trusting_), Code::OK);
  EXPECT_EQ(List({}), Code::UNAVAILABLE);
  Certificates others(folder_.path(), "others");
  ChannelSecurity wrong;
  wrong.ca_file = others.Authority();
  EXPECT_EQ(List(wrong), Code::UNAVAILABLE);

  // The name counts too.
  certificates_.Issue("elsewhere", "DNS:example.com");
  options_.security.tls.certificate = certificates_.Certificate("elsewhere");
  options_.security.tls.key = certificates_.Key("elsewhere");
  Restart();
  EXPECT_EQ(List(trusting_), Code::UNAVAILABLE);
}

TEST_F(TlsTest, ClientsNeedCertificatesWhereAsked) {
  options_.security.tls.client_ca = certificates_.Authority();
  // Enough to serve other machines.
  options_.listen = "0.0.0.0:0";
  Restart();
  ChannelSecurity own = trusting_;
  certificates_.Issue("alice", "DNS:alice");
  own.certificate_file = certificates_.Certificate("alice");
  own.key_file = certificates_.Key("alice");
  const std::string address =
      "127.0.0.1" + server_->address().substr(server_->address().rfind(':'));
  const auto create = [&](const ChannelSecurity& security, v1::Job* job) {
    const auto channel = OpenChannel(address, security, {});
    EXPECT_OK(channel);
    v1::CreateJobRequest request;
    *request.mutable_spec() = TestSpec(1);
    return v1::TrainingService::NewStub(*channel)
        ->CreateJob(Context().get(), request, job)
        .error_code();
  };
  v1::Job job;
  EXPECT_EQ(create(own, &job), Code::OK);
  // Without tokens the certificate tells who it is.
  EXPECT_EQ(job.user(), "alice");
  EXPECT_EQ(create(trusting_, &job), Code::UNAVAILABLE);
  Certificates others(folder_.path(), "others");
  others.Issue("mallory", "DNS:mallory");
  ChannelSecurity false_one = trusting_;
  false_one.certificate_file = others.Certificate("mallory");
  false_one.key_file = others.Key("mallory");
  EXPECT_EQ(create(false_one, &job), Code::UNAVAILABLE);
}

// The attack: one machine's certificate, shown for another's worker.
TEST_F(TlsTest, ACertificateStandsForItsOwnWorker) {
  options_.security.tls.client_ca = certificates_.Authority();
  Restart();
  ChannelSecurity own = trusting_;
  certificates_.Issue("rack1", "DNS:rack1");
  own.certificate_file = certificates_.Certificate("rack1");
  own.key_file = certificates_.Key("rack1");
  const auto connect = [&] {
    access_.reset();
    channel_ = *OpenChannel(server_->address(), own, {});
    access_ = v1::AccessService::NewStub(channel_);
    training_ = v1::TrainingService::NewStub(channel_);
    worker_stub_ = v1::WorkerService::NewStub(channel_);
  };
  connect();
  // Without tokens.
  EXPECT_EQ(SyncAs("", "rack1", "rack1"), Code::OK);
  EXPECT_EQ(SyncAs("", "rack1-17", "rack1-17"), Code::OK);
  EXPECT_EQ(SyncAs("", "rack2", "rack2"), Code::PERMISSION_DENIED);
  EXPECT_EQ(SyncAs("", "", "rack1"), Code::OK);
  EXPECT_EQ(SyncAs("", "", "rack2"), Code::PERMISSION_DENIED);
  EXPECT_EQ(UploadAs("", "jobs/a"), Code::PERMISSION_DENIED);
  // With a token that names no worker.
  const std::string root = Token("", "root", v1::ROLE_ADMIN);
  const std::string unbound =
      Token(root, "w1", v1::ROLE_UNSPECIFIED, {}, /*worker=*/true);
  Unbind(unbound);
  connect();
  EXPECT_EQ(SyncAs(unbound, "rack1", "rack1"), Code::OK);
  EXPECT_EQ(SyncAs(unbound, "w1", "w1"), Code::PERMISSION_DENIED);
  EXPECT_EQ(UploadAs(unbound, "jobs/a"), Code::PERMISSION_DENIED);
  // A token that names its worker decides.
  const std::string bound =
      Token(root, "w2", v1::ROLE_UNSPECIFIED, {}, /*worker=*/true);
  EXPECT_EQ(SyncAs(bound, "w2", "w2"), Code::OK);
  EXPECT_EQ(SyncAs(bound, "rack1", "rack1"), Code::PERMISSION_DENIED);
}

TEST_F(TlsTest, RenewedCertificateIsServedWithoutARestart) {
  Restart();
  const std::string before = Fingerprint();
  ASSERT_THAT(before, HasSubstr("="));
  certificates_.Issue("server", "DNS:localhost,IP:127.0.0.1");
  std::string after = before;
  // Each look is a connection, so this does not spin; the server looks at the
  // files every second.
  const absl::Time limit = absl::Now() + absl::Seconds(20);
  while (after == before && absl::Now() < limit) after = Fingerprint();
  EXPECT_NE(after, before);
  EXPECT_EQ(List(trusting_), Code::OK);
}

TEST_F(TlsTest, BadFilesAreNamed) {
  StopServer();
  const auto expect = [&](const TlsFiles& tls, const std::string& text) {
    ComeraServer::Options options = options_;
    options.security.tls = tls;
    EXPECT_THAT(ComeraServer::Start(options, &clock_, &ids_,
                                    [](const absl::Status&) {}),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text)));
  };
  const TlsFiles good = options_.security.tls;
  TlsFiles bad = good;
  bad.key.clear();
  expect(bad, "tls_key");
  bad = good;
  bad.certificate.clear();
  expect(bad, "tls_cert");
  bad = good;
  bad.certificate = "/nonexistent";
  expect(bad, "tls_cert: open /nonexistent");
  bad = good;
  bad.key = good.certificate;
  expect(bad, "holds no PEM key");
  certificates_.Issue("other", "DNS:localhost");
  bad = good;
  bad.key = certificates_.Key("other");
  expect(bad, "is not the key of");
  bad = good;
  bad.client_ca = good.key;
  expect(bad, "tls_client_ca");
}

TEST(RpcChannel, TokensDoNotTravelInTheClear) {
  ChannelSecurity security;
  security.token = "comera_abc";
  for (const char* address :
       {"example.com:7400", "10.0.0.1:7400", "dns:///example.com:1",
        "127.0.0.1.example.com:1", "[2001:db8::1]:1", "[::]:1"}) {
    EXPECT_THAT(OpenChannel(address, security, {}),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         ::testing::AllOf(HasSubstr("unencrypted"),
                                          Not(HasSubstr("comera_abc")))))
        << address;
  }
  for (const char* address : {"127.0.0.1:1", "localhost:1", "[::1]:1",
                              "unix:/x", "dns:///localhost:1"}) {
    EXPECT_OK(OpenChannel(address, security, {})) << address;
  }
  security.insecure_token = true;
  EXPECT_OK(OpenChannel("example.com:7400", security, {}));
  for (const std::string& token :
       {std::string("a b"), std::string("a\nb"), std::string("a\0b", 3),
        std::string(8000, 'a')}) {
    security.token = token;
    EXPECT_THAT(OpenChannel("127.0.0.1:1", security, {}),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
  ChannelSecurity files;
  files.token_file = "/nonexistent";
  EXPECT_THAT(OpenChannel("127.0.0.1:1", files, {}),
              StatusIs(absl::StatusCode::kNotFound));
  files.token_file.clear();
  files.ca_file = "/etc/hostname";
  EXPECT_THAT(OpenChannel("127.0.0.1:1", files, {}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  files.ca_file.clear();
  files.certificate_file = "/etc/hostname";
  EXPECT_THAT(OpenChannel("127.0.0.1:1", files, {}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace comera::server
