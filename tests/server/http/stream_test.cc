// Server streams over HTTP: events, logs and files.

#include <algorithm>
#include <thread>

#include "absl/strings/escaping.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "server/http/download.h"
#include "tests/server/http/gateway_fixture.h"

namespace comera::server {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Event {
  std::string id;
  std::string event;
  json data;
};

class StreamTest : public GatewayFixture {
 protected:
  static Event Parse(const std::string& text) {
    Event event;
    for (const absl::string_view line : absl::StrSplit(text, '\n')) {
      const std::pair<std::string, std::string> field =
          absl::StrSplit(line, absl::MaxSplits(": ", 1));
      if (field.first == "id") event.id = field.second;
      if (field.first == "event") event.event = field.second;
      if (field.first == "data") {
        event.data = json::parse(field.second, nullptr, false);
      }
    }
    return event;
  }

  std::vector<Event> Events(const std::string& target,
                            const HttpClient::Headers& headers = {}) {
    HttpClient client(server_->http_address());
    const HttpReply head = client.Begin("GET", target, headers);
    EXPECT_EQ(head.code, 200);
    EXPECT_EQ(head.Header("Content-Type"), "text/event-stream");
    std::vector<Event> events;
    for (std::string text = client.ReadEvent(); !text.empty();
         text = client.ReadEvent()) {
      events.push_back(Parse(text));
    }
    return events;
  }
  static std::vector<std::string> Names(const std::vector<Event>& events) {
    std::vector<std::string> names;
    for (const Event& event : events) names.push_back(event.event);
    return names;
  }

  // From the metrics.
  std::string OpenWatches() {
    static constexpr char kGauge[] =
        "comera_rpc_streams_open{method=\"TrainingService.WatchJob\"} ";
    const std::string text = Call("GET", "/metrics").body;
    const size_t at = text.find(kGauge);
    if (at == std::string::npos) return "";
    const size_t number = at + sizeof(kGauge) - 1;
    return text.substr(number, text.find('\n', number) - number);
  }

  static v1::LogChunk Chunk(const std::string& job, int64_t offset,
                            const std::string& data) {
    v1::LogChunk chunk;
    chunk.set_job(job);
    chunk.set_attempt(1);
    chunk.set_offset(offset);
    chunk.set_data(data);
    return chunk;
  }

  // Lets the ranks on `w1` end, rank 0 with a result.
  void End(Worker& worker) {
    for (v1::MemberStatus& rank : worker.ranks) {
      rank.set_phase(v1::MemberStatus::EXITED);
      if (rank.rank() == 0) {
        rank.mutable_result()->set_outcome(v1::COMPLETED);
        *rank.mutable_result()->mutable_reason() = "done";
      }
    }
    Sync(worker);
    worker.ranks.clear();
  }

  Worker w1_{"w1"};
};

TEST_F(StreamTest, AWatchFollowsResumesAndEnds) {
  const std::string name = Create(TestSpec(2)).name();
  std::vector<Event> live;
  std::thread watcher([&] { live = Events("/v1/" + name + ":watch"); });
  RunAll(w1_);
  v1::ProgressReport report;
  report.set_job(name);
  report.set_attempt(1);
  report.set_number(1);
  report.mutable_event()->mutable_metrics()->set_step(10);
  w1_.reports = {report};
  Sync(w1_);
  w1_.reports.clear();
  End(w1_);
  watcher.join();
  // While it waits the job may come again, with the reason.
  live.erase(
      std::remove_if(live.begin() + 1, live.end(),
                     [](const Event& event) { return event.event == "job"; }),
      live.end());
  EXPECT_THAT(Names(live),
              ElementsAre("job", "stateChange", "stateChange", "stateChange",
                          "metrics", "stateChange", "end"));
  EXPECT_EQ(live[0].data["job"]["name"], name);
  EXPECT_EQ(live[0].id, "");
  EXPECT_EQ(live[4].id, "4");
  EXPECT_EQ(live[4].data["event"]["metrics"]["step"], "10");
  EXPECT_EQ(live[6].data, json::object());

  EXPECT_THAT(Names(Events("/v1/" + name + ":watch", {{"Last-Event-ID", "4"}})),
              ElementsAre("job", "stateChange", "end"));
  EXPECT_THAT(Names(Events("/v1/" + name + ":watch?afterSequence=3")),
              ElementsAre("job", "metrics", "stateChange", "end"));
}

TEST_F(StreamTest, AnErrorBeforeTheFirstEventIsPlain) {
  const HttpReply reply = Call("GET", "/v1/jobs/none:watch");
  EXPECT_EQ(reply.code, 404);
  EXPECT_EQ(reply.Header("Content-Type"), "application/json");
  const std::string name = Create(TestSpec(2)).name();
  EXPECT_EQ(
      Call("GET", "/v1/" + name + ":watch", {{"Last-Event-ID", "x"}}).code,
      400);
}

TEST_F(StreamTest, AStoppingServerSaysSo) {
  const std::string name = Create(TestSpec(2)).name();
  HttpClient client(server_->http_address());
  ASSERT_EQ(client.Begin("GET", "/v1/" + name + ":watch").code, 200);
  EXPECT_EQ(Parse(client.ReadEvent()).event, "job");
  EXPECT_EQ(Parse(client.ReadEvent()).event, "stateChange");
  StopServer();
  // The job may come again, with the reason why it waits.
  Event end = Parse(client.ReadEvent());
  while (end.event == "job") end = Parse(client.ReadEvent());
  EXPECT_EQ(end.event, "end");
  EXPECT_EQ(end.data["error"]["status"], "UNAVAILABLE");
  EXPECT_TRUE(client.IsClosed());
}

TEST_F(StreamTest, AReaderWhoGoesIsForgotten) {
  const std::string name = Create(TestSpec(2)).name();
  {
    HttpClient client(server_->http_address());
    ASSERT_EQ(client.Begin("GET", "/v1/" + name + ":watch").code, 200);
    client.ReadEvent();
    EXPECT_EQ(OpenWatches(), "1");
  }
  // While the server goes on: its end would end the call in any case.
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (OpenWatches() != "0" && absl::Now() < deadline) {
    absl::SleepFor(absl::Milliseconds(5));
  }
  EXPECT_EQ(OpenWatches(), "0");
}

TEST_F(StreamTest, HeadOfAStreamEnds) {
  const std::string name = Create(TestSpec(2)).name();
  HttpClient client(server_->http_address());
  const HttpReply head = client.Begin("HEAD", "/v1/" + name + ":watch");
  EXPECT_EQ(head.code, 200);
  EXPECT_EQ(head.Header("Content-Type"), "text/event-stream");
  EXPECT_TRUE(client.IsClosed());
}

TEST_F(StreamTest, LogsAreTextOrEvents) {
  const std::string name = Create(TestSpec(2)).name();
  RunAll(w1_);
  w1_.logs = {Chunk(name, 0, "hello\nw\xc3"), Chunk(name, 8, "\xa9\n\xff\n")};
  Sync(w1_);
  w1_.logs.clear();
  const HttpReply text = Call("GET", "/v1/" + name + ":log");
  EXPECT_EQ(text.code, 200);
  EXPECT_EQ(text.Header("Content-Type"), "text/plain; charset=utf-8");
  EXPECT_EQ(text.body, "hello\nw\xc3\xa9\n\xff\n");
  EXPECT_EQ(Call("GET", "/v1/" + name + ":log?offset=10").body, "\xff\n");

  const HttpClient::Headers accept = {{"Accept", "text/event-stream"}};
  std::vector<Event> events = Events("/v1/" + name + ":log", accept);
  ASSERT_THAT(Names(events), ElementsAre("log", "end"));
  std::string data;
  ASSERT_TRUE(absl::Base64Unescape(events[0].data.value("data", ""), &data));
  EXPECT_EQ(data, "hello\nw\xc3\xa9\n\xff\n");
  EXPECT_EQ(events[0].data["attempt"], "1");
  EXPECT_EQ(events[0].id, "1:12");
  HttpClient::Headers resume = accept;
  resume.emplace_back("Last-Event-ID", "1:6");
  events = Events("/v1/" + name + ":log", resume);
  ASSERT_TRUE(absl::Base64Unescape(events[0].data.value("data", ""), &data));
  EXPECT_EQ(data, "w\xc3\xa9\n\xff\n");
  EXPECT_EQ(events[0].data["offset"], "6");
  EXPECT_EQ(Call("GET", "/v1/" + name + ":log?rank=7").code, 404);
}

TEST_F(StreamTest, FilesAreWholeOrRanges) {
  const std::string name = Create(TestSpec(2)).name();
  RunAll(w1_);
  std::string data;
  for (int i = 0; i < 100000; ++i) data += "0123456789"[i % 10];
  const v1::ArtifactFile file = Describe("model.safetensors", data);
  const std::string model = name + "/models/final";
  ASSERT_TRUE(Upload(model, 1, file, data).ok());
  for (v1::MemberStatus& rank : w1_.ranks) {
    rank.set_phase(v1::MemberStatus::EXITED);
    if (rank.rank() != 0) continue;
    rank.mutable_result()->set_outcome(v1::COMPLETED);
    v1::Artifact* artifact = rank.mutable_model();
    artifact->set_name(model);
    *artifact->add_files() = file;
  }
  Sync(w1_);
  w1_.ranks.clear();

  const std::string target =
      "/v1/" + model + ":download?path=model.safetensors";
  HttpReply reply = Call("GET", target);
  EXPECT_EQ(reply.code, 200);
  EXPECT_EQ(reply.body, data);
  EXPECT_EQ(reply.Header("Content-Length"), "100000");
  EXPECT_EQ(reply.Header("Content-Disposition"),
            "attachment; filename=\"model.safetensors\"");
  EXPECT_EQ(reply.Header("ETag"), "\"" + file.sha256() + "\"");
  EXPECT_EQ(Call("GET", target, {{"If-None-Match", reply.Header("ETag")}}).code,
            304);

  reply = Call("GET", target, {{"Range", "bytes=10-19"}});
  EXPECT_EQ(reply.code, 206);
  EXPECT_EQ(reply.body, "0123456789");
  EXPECT_EQ(reply.Header("Content-Range"), "bytes 10-19/100000");
  EXPECT_EQ(Call("GET", target, {{"Range", "bytes=99995-"}}).body, "56789");
  EXPECT_EQ(Call("GET", target, {{"Range", "bytes=-3"}}).body, "789");
  EXPECT_EQ(
      Call("GET", target, {{"Range", "bytes=5-"}, {"If-Range", "\"x\""}}).code,
      200);
  reply = Call("GET", target, {{"Range", "bytes=100000-"}});
  EXPECT_EQ(reply.code, 416);
  EXPECT_EQ(reply.Header("Content-Range"), "bytes */100000");
  EXPECT_EQ(Call("GET", target + "&offset=99999").body, "9");
  EXPECT_EQ(Call("GET", "/v1/" + model + ":download?path=nothing").code, 404);
  EXPECT_EQ(Call("GET", target + "&offset=100001").code, 400);
}

TEST(ParseRangeTest, TakesOneRange) {
  const auto range = [](const std::string& header) {
    const auto parsed = ParseRange(header, 100);
    return parsed ? std::make_pair(parsed->offset, parsed->size)
                  : std::make_pair(int64_t{-1}, int64_t{-1});
  };
  using Pair = std::pair<int64_t, int64_t>;
  EXPECT_EQ(range("bytes=0-9"), Pair(0, 10));
  EXPECT_EQ(range("bytes=90-200"), Pair(90, 10));
  EXPECT_EQ(range("bytes=-200"), Pair(0, 100));
  EXPECT_EQ(range("bytes=-0"), Pair(0, 0));
  EXPECT_EQ(range("bytes=100-"), Pair(0, 0));
  for (const char* bad :
       {"bytes=", "bytes=-", "bytes=5", "bytes=9-5", "bytes=0-1,5-6",
        "lines=0-1", "bytes=+1-2", "bytes=99999999999999999999-"}) {
    EXPECT_EQ(range(bad), Pair(-1, -1)) << bad;
  }
}

}  // namespace
}  // namespace comera::server
