// Speaks HTTP over TLS with the port of completions.

#include <curl/curl.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/json.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/security/certificates.h"
#include "worker/completions/completions_port.h"

namespace comera::worker {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Says "Hello world" in two pieces.
class TwoPieces : public TextModels {
 public:
  absl::Status Generate(
      const v1::GenerateRequest&, const std::string& ticket, absl::Time,
      const std::function<bool()>&,
      const std::function<bool(const v1::GenerateResponse&)>& write) override {
    if (!ticket.empty() && ticket != "comera-ticket_good") {
      return absl::UnauthenticatedError("who are you?");
    }
    v1::GenerateResponse piece;
    piece.set_text("Hello");
    write(piece);
    piece.set_text(" world");
    piece.set_finish(v1::GenerateResponse::LENGTH);
    write(piece);
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<ListedModel>> List(
      const std::string&, absl::Time, const std::function<bool()>&) override {
    return std::vector<ListedModel>();
  }
};

struct Reply {
  CURLcode result = CURLE_OK;
  // 0: none came.
  long status = 0;
  std::string body;
};

class CompletionsTlsTest : public ::testing::Test {
 protected:
  CompletionsTlsTest() : folder_(::testing::TempDir()), certificates_(folder_) {
    certificates_.Issue("worker", "DNS:localhost,IP:127.0.0.1");
    options_.listen = "127.0.0.1:0";
    options_.tls.certificate = certificates_.Certificate("worker");
    options_.tls.key = certificates_.Key("worker");
  }

  void Start() {
    auto port = CompletionsPort::Start(options_, &texts_);
    ASSERT_OK(port);
    port_ = *std::move(port);
  }

  // POSTs to /v1/completions as any client would, trusting the test's
  // authority alone.
  Reply Post(const std::string& scheme, const std::string& json,
             const std::string& header = "Accept: */*") {
    const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> call(
        curl_easy_init(), curl_easy_cleanup);
    Reply reply;
    curl_slist* headers = nullptr;
    headers = curl_slist_append(headers, "Content-Type: application/json");
    headers = curl_slist_append(headers, header.c_str());
    const std::string url =
        absl::StrCat(scheme, "://", port_->address(), "/v1/completions");
    curl_easy_setopt(call.get(), CURLOPT_URL, url.c_str());
    curl_easy_setopt(call.get(), CURLOPT_CAINFO,
                     certificates_.Authority().c_str());
    curl_easy_setopt(call.get(), CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(call.get(), CURLOPT_POSTFIELDS, json.c_str());
    curl_easy_setopt(call.get(), CURLOPT_TIMEOUT, 30L);
    const curl_write_callback append = [](char* data, size_t size, size_t count,
                                          void* body) {
      static_cast<std::string*>(body)->append(data, size * count);
      return size * count;
    };
    curl_easy_setopt(call.get(), CURLOPT_WRITEFUNCTION, append);
    curl_easy_setopt(call.get(), CURLOPT_WRITEDATA, &reply.body);
    reply.result = curl_easy_perform(call.get());
    curl_easy_getinfo(call.get(), CURLINFO_RESPONSE_CODE, &reply.status);
    curl_slist_free_all(headers);
    return reply;
  }

  const std::string folder_;
  Certificates certificates_;
  TwoPieces texts_;
  CompletionsPort::Options options_;
  std::unique_ptr<CompletionsPort> port_;
};

constexpr char kWhole[] = R"({"model": "jobs/a/models/m", "prompt": "Say:"})";
constexpr char kStream[] =
    R"({"model": "jobs/a/models/m", "prompt": "Say:", "stream": true})";

TEST_F(CompletionsTlsTest, TextsAndStreamsAreEncrypted) {
  Start();
  const Reply whole = Post("https", kWhole, "Authorization: Bearer comera-ticket_good");
  EXPECT_EQ(whole.result, CURLE_OK) << curl_easy_strerror(whole.result);
  EXPECT_EQ(whole.status, 200);
  EXPECT_EQ(ParseJson(whole.body)["choices"][0]["text"], "Hello world");
  const Reply stream = Post("https", kStream);
  EXPECT_EQ(stream.result, CURLE_OK) << curl_easy_strerror(stream.result);
  EXPECT_THAT(stream.body, AllOf(StartsWith("data: {"), HasSubstr("Hello"),
                                 EndsWith("data: [DONE]\n\n")));
  const Reply stranger = Post("https", kWhole, "Authorization: Bearer comera-ticket_bad");
  EXPECT_EQ(stranger.status, 401);
}

TEST_F(CompletionsTlsTest, NothingIsSaidInTheClear) {
  Start();
  const Reply reply = Post("http", kWhole);
  EXPECT_NE(reply.result, CURLE_OK);
  EXPECT_EQ(reply.body, "");
}

TEST_F(CompletionsTlsTest, ClientsThatDoNotKnowTheAuthorityAreSafe) {
  Certificates others(folder_, "other");
  others.Issue("worker", "DNS:localhost,IP:127.0.0.1");
  Start();
  EXPECT_EQ(Post("https", kWhole).result, CURLE_PEER_FAILED_VERIFICATION);
}

TEST_F(CompletionsTlsTest, PagesOfTheSameSiteComeOverTls) {
  Start();
  for (const auto& [scheme, status] :
       {std::pair{"https", 200}, std::pair{"http", 403}}) {
    EXPECT_EQ(Post("https", kWhole,
                   absl::StrCat("Origin: ", scheme, "://", port_->address()))
                  .status,
              status)
        << scheme;
  }
}

TEST_F(CompletionsTlsTest, OtherMachinesAreServed) {
  options_.listen = "0.0.0.0:0";
  Start();
}

TEST_F(CompletionsTlsTest, FilesAreCheckedAtTheStart) {
  const CompletionsPort::Options good = options_;
  const auto expect = [&](const std::string& text) {
    EXPECT_THAT(CompletionsPort::Start(options_, &texts_),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text)));
    options_ = good;
  };
  options_.tls.key.clear();
  expect("completions_tls_key: missing");
  options_.tls.certificate.clear();
  expect("completions_tls_cert: missing");
  options_.tls.certificate = folder_ + "/none";
  expect("completions_tls_cert: ");
  options_.tls.key = certificates_.Key("ca");
  expect("completions_tls_key: ");
}

}  // namespace
}  // namespace comera::worker
