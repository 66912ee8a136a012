// Tests how paths, queries and bodies become requests.
#include "server/http/request_message.h"

#include "absl/strings/str_cat.h"
#include "comera/v1/queue_service.pb.h"
#include "comera/v1/training_service.pb.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/http/openapi/server_rules.h"

namespace comera::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

class RequestMessageTest : public ::testing::Test {
 protected:
  RequestMessageTest() : router_(*ServerRules()) {}

  template <typename T>
  absl::StatusOr<T> Make(const std::string& verb, const std::string& path,
                         const std::string& query,
                         const std::string& body = "") {
    const Router::Match match = router_.Find(verb, path);
    if (match.rule == nullptr) return absl::NotFoundError(match.allowed);
    const auto parameters = ParseQuery(query);
    if (!parameters.ok()) return parameters.status();
    auto message = MakeRequestMessage(match, *parameters, body);
    if (!message.ok()) return message.status();
    return *dynamic_cast<T*>(message->get());
  }

  const Router router_;
};

TEST_F(RequestMessageTest, EveryRuleFindsItself) {
  for (const HttpRule& rule : router_.rules()) {
    std::string path;
    for (const std::string& segment : rule.path.segments) {
      path += "/" + (segment == "*" ? std::string("x") : segment);
    }
    if (!rule.path.verb.empty()) path += ":" + rule.path.verb;
    const Router::Match match = router_.Find(rule.verb, path);
    ASSERT_NE(match.rule, nullptr) << path;
    EXPECT_EQ(match.rule->method, rule.method) << path;
  }
}

TEST_F(RequestMessageTest, PathsAreBound) {
  const Router::Match match =
      router_.Find("GET", "/v1/jobs/a%20b/models/final:download");
  ASSERT_NE(match.rule, nullptr);
  EXPECT_EQ(match.rule->method->name(), "DownloadArtifact");
  EXPECT_THAT(match.bindings,
              ElementsAre(Pair("name", "jobs/a b/models/final")));
  EXPECT_EQ(router_.Find("GET", "/v1/jobs/").rule, nullptr);
  EXPECT_EQ(router_.Find("GET", "/v1/jobs/a/").rule, nullptr);
  EXPECT_EQ(router_.Find("GET", "/v1/jobs/a:bogus").rule->method->name(),
            "GetJob");
  EXPECT_EQ(router_.Find("PUT", "/v1/jobs/a").allowed,
            "GET, DELETE");
  EXPECT_EQ(router_.Find("GET", "/v1/jobs/a:cancel").allowed, "POST");
}

TEST_F(RequestMessageTest, QueriesFillFields) {
  const auto request = Make<v1::ListJobsRequest>(
      "GET", "/v1/jobs",
      "pageSize=7&states=RUNNING&states=2&labels.team=nlp&"
      "labels.a.b=c+d&text=%C3%A9&view=JOB_VIEW_BASIC");
  ASSERT_OK(request);
  EXPECT_EQ(request->page_size(), 7);
  EXPECT_EQ(request->states_size(), 2);
  EXPECT_EQ(request->labels().at("team"), "nlp");
  EXPECT_EQ(request->labels().at("a.b"), "c d");
  EXPECT_EQ(request->text(), "\xc3\xa9");
  EXPECT_EQ(request->view(), v1::JOB_VIEW_BASIC);
  EXPECT_EQ(Make<v1::ListJobsRequest>("GET", "/v1/jobs", "labels[a]=b")
                ->labels()
                .at("a"),
            "b");
  // The protos' own names too.
  EXPECT_EQ(
      Make<v1::ListJobsRequest>("GET", "/v1/jobs", "page_size=3")->page_size(),
      3);
}

TEST_F(RequestMessageTest, BadQueriesNameTheParameter) {
  const auto message = [this](const std::string& query) {
    return std::string(
        Make<v1::ListJobsRequest>("GET", "/v1/jobs", query).status().message());
  };
  EXPECT_THAT(message("pageSize=99999999999"), HasSubstr("pageSize: must be"));
  EXPECT_THAT(message("states=NOPE"), HasSubstr("RUNNING"));
  EXPECT_THAT(message("bogus=1"), HasSubstr("bogus: there is no such"));
  EXPECT_THAT(message("text=%ff"), HasSubstr("UTF-8"));
  EXPECT_THAT(message("labels=1"), HasSubstr("key"));
  EXPECT_THAT(message("text.x=1"), HasSubstr("no fields"));
  EXPECT_THAT(message("text=%4"), HasSubstr("hexadecimal"));
}

TEST_F(RequestMessageTest, ThePathDecidesOverTheBody) {
  const auto cancel =
      Make<v1::CancelJobRequest>("POST", "/v1/jobs/a:cancel", "",
                                 R"({"name": "jobs/b", "reason": "enough"})");
  ASSERT_OK(cancel);
  EXPECT_EQ(cancel->name(), "jobs/a");
  EXPECT_EQ(cancel->reason(), "enough");
  EXPECT_FALSE(
      Make<v1::CancelJobRequest>("POST", "/v1/jobs/a:cancel", "reason=x").ok());
  EXPECT_FALSE(Make<v1::GetJobRequest>("GET", "/v1/jobs/a", "", "{}").ok());
}

TEST_F(RequestMessageTest, ABodyMayBeOneField) {
  const auto update = Make<v1::UpdateQueueRequest>(
      "PATCH", "/v1/queues/nlp", "updateMask=weight,maxProcesses",
      R"({"weight": 3})");
  ASSERT_OK(update);
  EXPECT_EQ(update->queue().name(), "queues/nlp");
  EXPECT_EQ(update->queue().weight(), 3);
  EXPECT_THAT(update->update_mask().paths(),
              ElementsAre("weight", "max_processes"));
  EXPECT_FALSE(
      Make<v1::UpdateQueueRequest>("PATCH", "/v1/queues/nlp", "").ok());
}

TEST(PathTemplateTest, IsParsed) {
  const auto path = ParsePathTemplate("/v1/{parent=jobs/*}/models/{id}:go");
  ASSERT_OK(path);
  EXPECT_THAT(path->segments, ElementsAre("v1", "jobs", "*", "models", "*"));
  ASSERT_EQ(path->variables.size(), 2u);
  EXPECT_EQ(path->variables[0].first, 1u);
  EXPECT_EQ(path->variables[0].last, 2u);
  EXPECT_EQ(path->variables[1].field, "id");
  EXPECT_EQ(path->verb, "go");
  for (const char* bad : {"", "v1", "/v1//x", "/v1/{x", "/v1/a{x}", "/v1/a*"}) {
    EXPECT_FALSE(ParsePathTemplate(bad).ok()) << bad;
  }
}

TEST_F(RequestMessageTest, FormerNamesOfFieldsAreRead) {
  const auto job =
      Make<v1::CreateJobRequest>("POST", "/v1/jobs", "",
                                 R"({"spec": {"labels": {"ranks": "kept"},
                   "compression": {"head": {"ranks": [3]}},
                   "resources": {"ranks": 4, "min_ranks": 2,
                                 "threadsPerRank": 3}}})");
  ASSERT_OK(job);
  EXPECT_EQ(job->spec().resources().processes(), 4);
  EXPECT_EQ(job->spec().resources().min_processes(), 2);
  EXPECT_EQ(job->spec().resources().threads_per_process(), 3);
  EXPECT_EQ(job->spec().compression().head().ranks(0), 3);
  EXPECT_EQ(job->spec().labels().at("ranks"), "kept");
  EXPECT_THAT(
      Make<v1::CreateJobRequest>(
          "POST", "/v1/jobs", "",
          R"({"spec": {"resources": {"processes": 1, "ranks": 1}}})"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("spec.resources.ranks: is now called processes")));
}

// What a body takes grows with its length, not with its square: the test ends
// in time.
TEST_F(RequestMessageTest, ManyMembersTakeNoLonger) {
  std::string body = R"({"epoch":1)";
  for (int i = 0; i < 400000; ++i) absl::StrAppend(&body, ",\"a", i, "\":0");
  body += "}";
  EXPECT_FALSE(Make<v1::CreateJobRequest>("POST", "/v1/jobs", "", body).ok());
}

}  // namespace
}  // namespace comera::server
