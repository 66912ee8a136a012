// The API as JSON over a real HTTP port: what comes back, and for whom.

#include "comera/v1/access_service.grpc.pb.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/json_util.h"
#include "tests/server/http/gateway_fixture.h"

namespace comera::server {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class GatewayTest : public GatewayFixture {
 protected:
  static std::string SpecJson() {
    std::string text;
    EXPECT_TRUE(
        google::protobuf::util::MessageToJsonString(TestSpec(), &text).ok());
    return text;
  }
  std::string CreateJobOverHttp(const HttpClient::Headers& headers = {}) {
    const HttpReply reply =
        Call("POST", "/v1/jobs", headers, R"({"spec":)" + SpecJson() + "}");
    EXPECT_EQ(reply.code, 200) << reply.body;
    return json::parse(reply.body).value("name", "");
  }
  static HttpClient::Headers Bearer(const std::string& secret) {
    return {{"Authorization", "Bearer " + secret}};
  }
};

TEST_F(GatewayTest, JobsAreCreatedReadListedAndCancelled) {
  const std::string name = CreateJobOverHttp();
  ASSERT_THAT(name, StartsWith("jobs/"));
  json job = GetJson("/v1/" + name);
  EXPECT_EQ(job["state"], "QUEUED");
  EXPECT_EQ(job["spec"]["model"]["hidden"], "64");
  // The same as over gRPC.
  std::string grpc_json;
  ASSERT_TRUE(
      google::protobuf::util::MessageToJsonString(Get(name), &grpc_json).ok());
  json grpc_job = json::parse(grpc_json);
  // What it waits for may have become clear in between.
  grpc_job.erase("reason");
  job.erase("reason");
  EXPECT_EQ(grpc_job, job);

  EXPECT_EQ(GetJson("/v1/jobs?pageSize=1")["jobs"][0]["name"], name);
  EXPECT_EQ(GetJson("/v1/jobs?states=QUEUED&states=PAUSED")["jobs"].size(), 1u);

  const HttpReply cancelled =
      Call("POST", "/v1/" + name + ":cancel", {}, R"({"reason":"enough"})");
  EXPECT_EQ(cancelled.code, 200);
  EXPECT_EQ(Get(name).state(), v1::CANCELLED);
  // A change without fields needs no body.
  EXPECT_EQ(Call("POST", "/v1/" + name + ":cancel").code, 200);
}

TEST_F(GatewayTest, QueuesAreCreatedChangedAndDeleted) {
  const HttpReply made = Call("POST", "/v1/queues", {},
                              R"({"queueId":"nlp","queue":{"weight":2}})");
  ASSERT_EQ(made.code, 200) << made.body;
  const HttpReply changed =
      Call("PATCH", "/v1/queues/nlp?updateMask=weight", {}, R"({"weight":3})");
  ASSERT_EQ(changed.code, 200) << changed.body;
  EXPECT_EQ(GetJson("/v1/queues/nlp")["weight"], 3);
  EXPECT_EQ(Call("DELETE", "/v1/queues/nlp").code, 200);
  EXPECT_EQ(Call("GET", "/v1/queues/nlp").code, 404);
}

TEST_F(GatewayTest, ErrorsAreThoseOfGrpcInJson) {
  const HttpReply missing = Call("GET", "/v1/jobs/none");
  EXPECT_EQ(missing.code, 404);
  EXPECT_EQ(missing.Header("Content-Type"), "application/json");
  const json error = json::parse(missing.body)["error"];
  EXPECT_EQ(error["code"], 404);
  EXPECT_EQ(error["status"], "NOT_FOUND");
  EXPECT_EQ(error["details"][0]["@type"],
            "type.googleapis.com/google.rpc.ErrorInfo");

  json spec = json::parse(SpecJson());
  spec["model"]["hidden"] = -1;
  const HttpReply invalid =
      Call("POST", "/v1/jobs", {}, json{{"spec", spec}}.dump());
  EXPECT_EQ(invalid.code, 400);
  EXPECT_THAT(invalid.body,
              HasSubstr(R"("fieldViolations":[{"field":"spec.model.hidden")"));
}

TEST_F(GatewayTest, MalformedRequestsAreToldWhere) {
  const auto error = [](const HttpReply& reply) {
    return json::parse(reply.body)["error"].value("message", "");
  };
  HttpReply reply = Call("POST", "/v1/jobs", {}, "{\n  \"spec\": ,\n}");
  EXPECT_EQ(reply.code, 400);
  EXPECT_THAT(error(reply), HasSubstr("line 2, column 11"));
  reply = Call("POST", "/v1/jobs", {}, R"({"spec":{"model":{"hiden":1}}})");
  EXPECT_EQ(reply.code, 400);
  EXPECT_THAT(error(reply), HasSubstr("spec.model.hiden"));
  EXPECT_THAT(reply.body, HasSubstr(R"("field":"spec.model.hiden")"));
  EXPECT_EQ(Call("POST", "/v1/jobs", {}, "[]").code, 400);
  EXPECT_EQ(Call("POST", "/v1/jobs", {}, std::string(200, '[')).code, 400);
  EXPECT_EQ(
      Call("POST", "/v1/jobs", {{"Content-Type", "text/plain"}}, "{}").code,
      415);
  for (const char* target :
       {"/v1/jobs?pageSize=x", "/v1/jobs?bogus=1", "/v1/jobs?states=NOPE",
        "/v1/jobs?labels=x", "/v1/jobs?text=%zz", "/v1/jobs?text=%ff"}) {
    EXPECT_EQ(Call("GET", target).code, 400) << target;
  }
  EXPECT_EQ(Call("GET", "/v1/nothing").code, 404);
  EXPECT_EQ(Call("GET", "/v1/jobs/%zz").code, 404);
  reply = Call("PUT", "/v1/jobs");
  EXPECT_EQ(reply.code, 405);
  EXPECT_EQ(reply.Header("Allow"), "POST, GET");
}

TEST_F(GatewayTest, HealthNeedsNothing) {
  EXPECT_EQ(Call("GET", "/healthz", {{"Host", "probe.example"}}).code, 200);
  EXPECT_EQ(Call("GET", "/healthz?ready").body, "leader\n");
  EXPECT_EQ(Call("GET", "/readyz").body, "leader\n");
}

TEST_F(GatewayTest, ReadinessTellsOfAFullDisk) {
  struct FullDisk : DiskSpace {
    absl::StatusOr<int64_t> FreeBytes() override { return 5; }
  } space;
  EXPECT_EQ(Call("GET", "/readyz?writable").code, 200);
  options_.disk = {10, 20, 0};
  options_.disk_space = &space;
  RestartServer();
  EXPECT_EQ(Call("GET", "/readyz").code, 200);
  EXPECT_EQ(Call("GET", "/readyz").body, "leader, read-only: disk full\n");
  EXPECT_EQ(Call("GET", "/readyz?leader").code, 200);
  EXPECT_EQ(Call("GET", "/readyz?writable").code, 503);
  EXPECT_EQ(Call("POST", "/v1/jobs", {}, R"({"spec":)" + SpecJson() + "}").code,
            429);
  EXPECT_EQ(Call("GET", "/v1/jobs").code, 200);
  StopServer();
}

TEST_F(GatewayTest, TokensHoldAsOverGrpc) {
  const std::string admin = CreateToken("", "root", "ROLE_ADMIN");
  const std::string viewer = CreateToken(admin, "eve", "ROLE_VIEWER");
  HttpReply reply = Call("GET", "/v1/jobs");
  EXPECT_EQ(reply.code, 401);
  EXPECT_EQ(reply.Header("WWW-Authenticate"), "Bearer");
  EXPECT_EQ(Call("GET", "/v1/jobs", Bearer("comera_x_y")).code, 401);
  EXPECT_EQ(Call("GET", "/v1/jobs", Bearer(std::string(5000, 'x'))).code, 401);
  EXPECT_EQ(Call("GET", "/v1/jobs", Bearer("a\xff")).code, 401);
  EXPECT_EQ(Call("GET", "/v1/jobs",
                 {{"Authorization", "Bearer " + admin},
                  {"Authorization", "Bearer " + admin}})
                .code,
            401);
  EXPECT_EQ(Call("GET", "/v1/jobs", Bearer(viewer)).code, 200);
  reply = Call("POST", "/v1/jobs", Bearer(viewer),
               R"({"spec":)" + SpecJson() + "}");
  EXPECT_EQ(reply.code, 403) << reply.body;
  EXPECT_EQ(GetJson("/v1/whoami", Bearer(viewer))["user"], "eve");
}

TEST_F(GatewayTest, TheAuditLogHasThePeer) {
  const std::string admin = CreateToken("", "root", "ROLE_ADMIN");
  CreateJobOverHttp(Bearer(admin));
  const json entries = GetJson("/v1/auditEntries", Bearer(admin))["entries"];
  ASSERT_GE(entries.size(), 2u);
  EXPECT_EQ(entries[0]["method"], "TrainingService.CreateJob");
  EXPECT_EQ(entries[0]["user"], "root");
  EXPECT_THAT(entries[0].value("peer", ""), StartsWith("http:127.0.0.1:"));
  EXPECT_EQ(entries[1]["method"], "AccessService.CreateToken");
  EXPECT_THAT(entries[1].value("peer", ""), StartsWith("http:127.0.0.1:"));
}

TEST_F(GatewayTest, NobodyOnTheNetworkIsTakenForTheHttpPort) {
  auto access = v1::AccessService::NewStub(channel_);
  auto context = Context();
  context->AddMetadata("comera-forwarded-secret", std::string(64, '0'));
  context->AddMetadata("comera-forwarded-peer-bin", "http:forged");
  context->AddMetadata("comera-forwarded-name-bin", "admin");
  v1::CreateTokenRequest request;
  request.set_user("root");
  request.set_role(v1::ROLE_ADMIN);
  v1::CreateTokenResponse response;
  // So are calls that a follower passes on with the secret of an earlier
  // leader.
  EXPECT_EQ(access->CreateToken(context.get(), request, &response).error_code(),
            grpc::StatusCode::UNAVAILABLE);
  // No token was made, so the first one can be.
  const std::string admin = CreateToken("", "root", "ROLE_ADMIN");
  const json audit = GetJson("/v1/auditEntries", Bearer(admin));
  for (const json& entry : audit.value("entries", json::array())) {
    EXPECT_NE(entry.value("user", ""), "admin");
    EXPECT_NE(entry.value("peer", ""), "http:forged");
  }
}

TEST_F(GatewayTest, ABrowserSignsInAndOut) {
  const std::string admin = CreateToken("", "root", "ROLE_ADMIN");
  EXPECT_EQ(Call("POST", "/v1/session", {}, R"({"token":"comera_x_y"})").code,
            401);
  EXPECT_EQ(Call("POST", "/v1/session", {}, R"({"token":"a; Path=/x"})").code,
            401);
  EXPECT_EQ(Call("POST", "/v1/session", {}, R"({"token":3})").code, 400);
  EXPECT_EQ(Call("GET", "/v1/session").code, 405);
  // Strangers cannot have large bodies read.
  const HttpReply large =
      Call("POST", "/v1/session", {},
           R"({"token":"a","x":")" + std::string(5000, 'x') + R"("})");
  EXPECT_EQ(large.code, 400);
  EXPECT_THAT(large.body, HasSubstr("more than 4096 bytes"));
  const HttpReply in =
      Call("POST", "/v1/session", {}, R"({"token":")" + admin + R"("})");
  ASSERT_EQ(in.code, 200) << in.body;
  EXPECT_EQ(json::parse(in.body)["user"], "root");
  EXPECT_EQ(Call("POST", "/v1/session", Bearer(admin), "{}").code, 200);
  const std::string cookie = in.Header("Set-Cookie");
  EXPECT_THAT(cookie,
              AllOf(HasSubstr("; HttpOnly"), HasSubstr("; SameSite=Strict"),
                    Not(HasSubstr("Secure"))));
  const HttpClient::Headers session = {
      {"Cookie", "theme=dark; " + cookie.substr(0, cookie.find(';'))}};
  EXPECT_EQ(GetJson("/v1/whoami", session)["user"], "root");
  // A change needs to say which page sends it.
  const std::string queue = R"({"queueId":"a","queue":{"weight":1}})";
  EXPECT_EQ(Call("POST", "/v1/queues", session, queue).code, 403);
  HttpClient::Headers same = session;
  same.emplace_back("Origin", "http://" + server_->http_address());
  EXPECT_EQ(Call("POST", "/v1/queues", same, queue).code, 200);
  // Another port of this machine is another site, although cookies go there.
  HttpClient::Headers other = session;
  other.emplace_back("Origin", "http://127.0.0.1:1");
  EXPECT_EQ(Call("GET", "/v1/whoami", other).code, 403);

  const HttpReply out = Call("DELETE", "/v1/session", same);
  EXPECT_EQ(out.code, 204);
  EXPECT_THAT(out.Header("Set-Cookie"), HasSubstr("Max-Age=0"));
}

TEST_F(GatewayTest, JobFilesAreParsed) {
  const auto parse = [this](const json& body) {
    return Call("POST", "/v1/jobs:parse", {}, body.dump());
  };
  HttpReply reply = parse({{"text", "model:\n  family: masked_lm\n"}});
  EXPECT_EQ(reply.code, 200) << reply.body;
  EXPECT_EQ(json::parse(reply.body)["spec"]["model"]["family"], "MASKED_LM");
  reply = parse({{"text", R"({"model": {"hidden": 64}})"}});
  EXPECT_EQ(json::parse(reply.body)["spec"]["model"]["hidden"], "64");
  reply =
      parse({{"text", "model { hidden: 64 }"}, {"fileName", "a.textproto"}});
  EXPECT_EQ(json::parse(reply.body)["spec"]["model"]["hidden"], "64");

  reply = parse({{"text", "model:\n  hiden: 3\n"}});
  EXPECT_EQ(reply.code, 400);
  const json error = json::parse(reply.body)["error"];
  EXPECT_EQ(error["details"][0]["metadata"]["line"], "2");
  EXPECT_EQ(error["details"][1]["fieldViolations"][0]["field"],
            "spec.model.hiden");
  EXPECT_THAT(error.value("message", ""),
              StartsWith("job.yaml:2: model.hiden"));
  EXPECT_THAT(
      error["details"][1]["fieldViolations"][0].value("description", ""),
      StartsWith("line 2: "));
  EXPECT_EQ(Call("POST", "/v1/jobs:parse", {{"Content-Type", "text/plain"}},
                 "training: {seed: 3}")
                .body,
            R"({"spec":{"training":{"seed":"3"}}})");
  EXPECT_EQ(parse({{"text", "a: b: c"}}).code, 400);
  EXPECT_EQ(parse({{"text", "x"}, {"fileName", "a.exe"}}).code, 400);
  EXPECT_EQ(parse(json::array()).code, 400);
}

TEST_F(GatewayTest, MetricsNeedATokenUnlessOpen) {
  const HttpReply metrics = Call("GET", "/metrics");
  EXPECT_EQ(metrics.code, 200);
  EXPECT_EQ(metrics.Header("Content-Type"),
            "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_THAT(metrics.body, HasSubstr("# TYPE comera_"));
  const std::string admin = CreateToken("", "root", "ROLE_ADMIN");
  EXPECT_EQ(Call("GET", "/metrics").code, 401);
  EXPECT_EQ(Call("GET", "/metrics", Bearer(admin)).code, 200);
  options_.http.open_metrics = true;
  RestartServer();
  EXPECT_EQ(Call("GET", "/metrics").code, 200);
}

TEST_F(GatewayTest, KeptAnswersAreNeverOldNorSomebodyElses) {
  const std::string admin = CreateToken("", "root", "ROLE_ADMIN");
  const std::string eve = CreateToken(admin, "eve", "ROLE_VIEWER");
  const std::string name = CreateJobOverHttp(Bearer(admin));
  const std::string target = "/v1/" + name;
  EXPECT_EQ(GetJson(target, Bearer(admin))["state"], "QUEUED");
  EXPECT_EQ(GetJson(target, Bearer(admin))["state"], "QUEUED");
  // Changed over gRPC, by somebody else.
  auto context = Context();
  context->AddMetadata("authorization", "Bearer " + admin);
  v1::CancelJobRequest cancel;
  cancel.set_name(name);
  v1::Job job;
  ASSERT_TRUE(training_->CancelJob(context.get(), cancel, &job).ok());
  EXPECT_EQ(GetJson(target, Bearer(admin))["state"], "CANCELLED");

  EXPECT_EQ(GetJson("/v1/whoami", Bearer(admin))["user"], "root");
  EXPECT_EQ(GetJson("/v1/whoami", Bearer(eve))["user"], "eve");
  EXPECT_EQ(Call("GET", "/v1/tokens", Bearer(admin)).code, 200);
  EXPECT_EQ(Call("GET", "/v1/tokens", Bearer(eve)).code, 403);
  EXPECT_EQ(Call("GET", "/v1/tokens").code, 401);
  // A token that was revoked opens nothing that is kept.
  const json tokens = GetJson("/v1/tokens", Bearer(admin))["tokens"];
  EXPECT_EQ(Call("GET", target, Bearer(eve)).code, 200);
  const bool first = tokens[0].value("user", "") == "eve";
  const std::string evil = tokens[first ? 0 : 1].value("name", "");
  ASSERT_EQ(Call("POST", "/v1/" + evil + ":revoke", Bearer(admin)).code, 200);
  EXPECT_EQ(Call("GET", target, Bearer(eve)).code, 401);
}

TEST_F(GatewayTest, KeptAnswersCountAgainstTheRate) {
  const std::string admin = CreateToken("", "root", "ROLE_ADMIN");
  options_.security.limits.requests_per_second = 1;
  options_.security.limits.request_burst = 5;
  RestartServer();
  int refused = 0;
  for (int i = 0; i < 20; ++i) {
    const HttpReply reply = Call("GET", "/v1/serverInfo", Bearer(admin));
    if (reply.code != 429) continue;
    ++refused;
    EXPECT_EQ(reply.Header("Retry-After"), "1");
  }
  EXPECT_GE(refused, 10);
}

TEST_F(GatewayTest, TheDashboardIsServed) {
  const HttpReply page = Call("GET", "/");
  EXPECT_EQ(page.code, 200);
  EXPECT_EQ(page.Header("Content-Type"), "text/html; charset=utf-8");
  EXPECT_THAT(page.Header("Content-Security-Policy"),
              HasSubstr("script-src 'self'"));
  // A page within the dashboard.
  EXPECT_EQ(Call("GET", "/jobs/some-job").body, page.body);
  EXPECT_EQ(Call("GET", "/nothing.js").code, 404);
  EXPECT_EQ(Call("GET", "/../../etc/passwd.txt").code, 404);
  EXPECT_EQ(Call("GET", "/", {{"If-None-Match", page.Header("ETag")}}).code,
            304);
}

TEST_F(GatewayTest, PagesOfOtherSitesAreRefused) {
  EXPECT_EQ(Call("GET", "/v1/jobs", {{"Origin", "http://evil.example"}}).code,
            403);
  EXPECT_EQ(Call("POST", "/v1/jobs", {{"Origin", "null"}}, "{}").code, 403);
  // A name that was made to lead here.
  EXPECT_EQ(Call("GET", "/v1/jobs", {{"Host", "evil.example"}}).code, 403);
  EXPECT_EQ(Call("GET", "/v1/jobs",
                 {{"Host", "evil.example"}, {"Origin", "http://evil.example"}})
                .code,
            403);
  const std::string own = server_->http_address();
  EXPECT_EQ(Call("GET", "/v1/jobs", {{"Origin", "http://" + own}}).code, 200);
  EXPECT_EQ(Call("GET", "/v1/jobs", {{"Host", "localhost:1"}}).code, 200);
  EXPECT_EQ(Call("GET", "/v1/jobs", {{"Host", "[::1]:1"}}).code, 200);
}

TEST_F(GatewayTest, NamesOfProxiesAreAllowed) {
  options_.http.names = {"comera.example"};
  RestartServer();
  EXPECT_EQ(Call("GET", "/v1/jobs", {{"Host", "comera.example"}}).code, 200);
  EXPECT_EQ(
      Call("GET", "/v1/jobs", {{"Origin", "https://comera.example"}}).code,
      200);
}

TEST_F(GatewayTest, AnswersHaveTagsAndSecurityHeaders) {
  // A queued job's reason would change once the scheduler has looked at it.
  const std::string ended = CreateJobOverHttp();
  ASSERT_EQ(Call("POST", "/v1/" + ended + ":cancel", {}, "{}").code, 200);
  const HttpReply first = Call("GET", "/v1/jobs");
  const std::string tag = first.Header("ETag");
  ASSERT_THAT(tag, StartsWith("\""));
  EXPECT_EQ(first.Header("X-Content-Type-Options"), "nosniff");
  EXPECT_THAT(first.Header("Content-Security-Policy"),
              HasSubstr("frame-ancestors 'none'"));
  EXPECT_EQ(first.Header("Cache-Control"), "private, no-cache");
  const HttpReply second = Call("GET", "/v1/jobs", {{"If-None-Match", tag}});
  EXPECT_EQ(second.code, 304);
  EXPECT_EQ(second.body, "");
  CreateJobOverHttp();
  const HttpReply third = Call("GET", "/v1/jobs", {{"If-None-Match", tag}});
  EXPECT_EQ(third.code, 200);
  EXPECT_NE(third.Header("ETag"), tag);
  // Changes are not kept by anybody.
  EXPECT_EQ(Call("POST", "/v1/jobs", {}, "{}").Header("Cache-Control"),
            "no-store");
}

TEST_F(GatewayTest, LargeAnswersAreCompressed) {
  CreateJobOverHttp();
  CreateJobOverHttp();
  CreateJobOverHttp();
  const HttpReply plain = Call("GET", "/v1/jobs");
  const HttpReply packed =
      Call("GET", "/v1/jobs", {{"Accept-Encoding", "br, gzip"}});
  EXPECT_EQ(packed.Header("Content-Encoding"), "gzip");
  EXPECT_LT(packed.body.size(), plain.body.size());
  EXPECT_THAT(packed.body, StartsWith("\x1f\x8b"));
  EXPECT_EQ(Call("GET", "/v1/jobs", {{"Accept-Encoding", "gzip;q=0"}})
                .Header("Content-Encoding"),
            "");
  EXPECT_NE(packed.Header("ETag"), plain.Header("ETag"));
}

TEST_F(GatewayTest, ConnectionsAreKeptAndHeadHasNoBody) {
  HttpClient client(server_->http_address());
  EXPECT_EQ(client.Call("GET", "/v1/jobs").code, 200);
  const HttpReply head = client.Call("HEAD", "/v1/serverInfo");
  EXPECT_EQ(head.code, 200);
  EXPECT_NE(head.Header("Content-Length"), "0");
  EXPECT_EQ(client.Call("GET", "/v1/serverInfo").code, 200);
}

}  // namespace
}  // namespace comera::server
