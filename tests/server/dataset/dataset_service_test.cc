// Tests DatasetService over gRPC.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <thread>

#include "comera/v1/access_service.grpc.pb.h"
#include "common/files.h"
#include "gmock/gmock.h"
#include "tests/server/dataset/dataset_fixture.h"

namespace comera::server {
namespace {

using grpc::StatusCode;
using ::testing::HasSubstr;

TEST_F(DatasetFixture, BrokenUploadGoesOnWhereItBroke) {
  const std::string data(1000000, 'd');
  const std::string sha256 = Sha256Hex(data);
  EXPECT_EQ(QueryBlob(sha256).offset(), 0);
  EXPECT_EQ(UploadBlob(data, 0, 300000).error_code(), StatusCode::DATA_LOSS);
  EXPECT_EQ(QueryBlob(sha256).offset(), 300000);
  EXPECT_FALSE(QueryBlob(sha256).complete());
  std::string read;
  EXPECT_EQ(DownloadBlob(sha256, 0, &read).error_code(), StatusCode::NOT_FOUND);
  // The server restarts in between.
  Restart();
  EXPECT_EQ(UploadBlob(data, 0).error_code(), StatusCode::OUT_OF_RANGE);
  EXPECT_TRUE(UploadBlob(data, 300000).ok());
  EXPECT_TRUE(QueryBlob(sha256).complete());
  EXPECT_TRUE(DownloadBlob(sha256, 0, &read).ok());
  EXPECT_EQ(read, data);
  read.clear();
  EXPECT_TRUE(DownloadBlob(sha256, 999990, &read).ok());
  EXPECT_EQ(read, std::string(10, 'd'));
  EXPECT_EQ(DownloadBlob(sha256, 1000001, &read).error_code(),
            StatusCode::OUT_OF_RANGE);
  EXPECT_EQ(DownloadBlob(sha256, -1, &read).error_code(),
            StatusCode::OUT_OF_RANGE);
  // What is there is not taken again.
  EXPECT_TRUE(UploadBlob(data).ok());
}

TEST_F(DatasetFixture, HostileUploads) {
  const std::string sha256 = Sha256Hex("abc");
  struct Row {
    const char* what;
    std::vector<v1::UploadBlobRequest> messages;
    StatusCode code;
  };
  const auto header = [](const std::string& sha, int64_t size, int64_t offset) {
    v1::UploadBlobRequest request;
    request.mutable_header()->set_sha256(sha);
    request.mutable_header()->set_size_bytes(size);
    request.mutable_header()->set_offset(offset);
    return request;
  };
  const auto data = [](const std::string& bytes) {
    v1::UploadBlobRequest request;
    request.set_data(bytes);
    return request;
  };
  const StatusCode bad = StatusCode::INVALID_ARGUMENT;
  const std::vector<Row> rows = {
      {"nothing", {}, bad},
      {"no header", {data("abc")}, bad},
      {"two headers", {header(sha256, 3, 0), header(sha256, 3, 0)}, bad},
      {"path", {header("../../../../etc/passwd", 3, 0)}, bad},
      {"upper case", {header(std::string(64, 'A'), 3, 0)}, bad},
      {"negative size", {header(sha256, -3, 0)}, bad},
      {"negative offset", {header(sha256, 3, -1)}, bad},
      {"offset beyond", {header(sha256, 3, 4)}, bad},
      {"offset not there", {header(sha256, 3, 2)}, StatusCode::OUT_OF_RANGE},
      {"huge", {header(sha256, INT64_MAX, 0)}, StatusCode::RESOURCE_EXHAUSTED},
      {"more than announced",
       {header(sha256, 3, 0), data("abcd")},
       StatusCode::DATA_LOSS},
      {"other bytes",
       {header(sha256, 3, 0), data("abd")},
       StatusCode::DATA_LOSS},
  };
  for (const Row& row : rows) {
    auto context = Context();
    v1::UploadBlobResponse response;
    auto writer = datasets_->UploadBlob(context.get(), &response);
    for (const auto& message : row.messages) {
      if (!writer->Write(message)) break;
    }
    writer->WritesDone();
    EXPECT_EQ(writer->Finish().error_code(), row.code) << row.what;
  }
  EXPECT_EQ(QueryBlob(sha256).offset(), 0);
  EXPECT_TRUE(UploadBlob("abc").ok());
}

TEST_F(DatasetFixture, ManyClientsSendTheSameBlob) {
  const std::string data(3000000, 'm');
  std::vector<std::thread> clients;
  std::atomic<int> done{0};
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&] {
      for (int attempt = 0; attempt < 10000; ++attempt) {
        const v1::BlobState state = QueryBlob(Sha256Hex(data));
        if (state.complete()) break;
        const StatusCode code = UploadBlob(data, state.offset()).error_code();
        ASSERT_TRUE(code == StatusCode::OK || code == StatusCode::UNAVAILABLE ||
                    code == StatusCode::OUT_OF_RANGE)
            << code;
      }
      ++done;
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(done, 4);
  std::string read;
  EXPECT_TRUE(DownloadBlob(Sha256Hex(data), 0, &read).ok());
  EXPECT_EQ(read, data);
}

TEST_F(DatasetFixture, VersionsAppearWholeAndStay) {
  const Files files = {{"train.tsv", "a\tb\n1\t2\n"}, {"sub/x", ""}};
  v1::Dataset dataset;
  grpc::Status status = CreateDataset(CreateRequest("mnli", files), &dataset);
  EXPECT_EQ(status.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("2 of 2 files are missing"));
  EXPECT_EQ(GetDataset("datasets/mnli", &dataset).error_code(),
            StatusCode::NOT_FOUND);

  dataset = UploadDataset("mnli", files);
  EXPECT_EQ(dataset.name(), "datasets/mnli");
  ASSERT_EQ(dataset.versions_size(), 1);
  EXPECT_EQ(dataset.versions(0).name(), "datasets/mnli@1");
  EXPECT_EQ(dataset.versions(0).file_count(), 2);
  EXPECT_EQ(dataset.versions(0).size_bytes(), 8);
  // The same files again: nothing new.
  EXPECT_EQ(UploadDataset("mnli", files).versions_size(), 1);
  v1::CreateDatasetRequest labelled = CreateRequest("mnli", files);
  (*labelled.mutable_labels())["task"] = "nli";
  EXPECT_TRUE(CreateDataset(labelled, &dataset).ok());
  EXPECT_EQ(dataset.versions_size(), 1);
  EXPECT_EQ(dataset.labels().at("task"), "nli");

  dataset = UploadDataset("mnli", {{"train.tsv", "other\n"}});
  ASSERT_EQ(dataset.versions_size(), 2);
  EXPECT_EQ(dataset.versions(1).name(), "datasets/mnli@2");
  EXPECT_EQ(dataset.labels().at("task"), "nli");

  Restart();
  ASSERT_TRUE(GetDataset("datasets/mnli", &dataset).ok());
  EXPECT_EQ(dataset.versions_size(), 2);
  v1::ListDatasetFilesRequest list;
  v1::ListDatasetFilesResponse page;
  list.set_name("datasets/mnli@1");
  list.set_page_size(1);
  ASSERT_TRUE(datasets_->ListDatasetFiles(Context().get(), list, &page).ok());
  ASSERT_EQ(page.files_size(), 1);
  EXPECT_EQ(page.files(0).path(), "sub/x");
  EXPECT_EQ(page.version(), "datasets/mnli@1");
  list.set_page_token(page.next_page_token());
  ASSERT_TRUE(datasets_->ListDatasetFiles(Context().get(), list, &page).ok());
  EXPECT_EQ(page.files(0).path(), "train.tsv");
  EXPECT_EQ(page.next_page_token(), "");
  // A token is of one list.
  list.set_name("datasets/mnli@2");
  EXPECT_EQ(
      datasets_->ListDatasetFiles(Context().get(), list, &page).error_code(),
      StatusCode::INVALID_ARGUMENT);
}

TEST_F(DatasetFixture, BadDatasetsAreRefusedByField) {
  v1::Dataset dataset;
  const auto refused = [&](v1::CreateDatasetRequest request, StatusCode code,
                           const char* what) {
    const grpc::Status status = CreateDataset(request, &dataset);
    EXPECT_EQ(status.error_code(), code) << what;
    EXPECT_THAT(status.error_message(), HasSubstr(what));
  };
  ASSERT_TRUE(UploadBlob("x").ok());
  const auto bad = StatusCode::INVALID_ARGUMENT;
  refused(CreateRequest("Bad/../Id", {{"a", "x"}}), bad, "dataset_id");
  refused(CreateRequest("", {{"a", "x"}}), bad, "dataset_id");
  refused(CreateRequest("d", {}), bad, "files: missing");
  refused(CreateRequest("d", {{"../a", "x"}}), bad, "files[0].path");
  v1::CreateDatasetRequest request = CreateRequest("d", {{"a", "x"}});
  request.mutable_files(0)->set_size_bytes(2);
  refused(request, bad, "has 1 bytes, not 2");
  request = CreateRequest("d", {{"a", "x"}});
  (*request.mutable_labels())["no key\n"] = "v";
  refused(request, bad, "labels");
  request.clear_labels();
  (*request.mutable_labels())["k"] = std::string(256, 'v');
  refused(request, bad, "labels[k]");
  request.clear_labels();
  for (int i = 0; i < 65; ++i) {
    (*request.mutable_labels())[std::to_string(i)] = "v";
  }
  refused(request, bad, "labels");
  for (const char* name : {"", "datasets/", "datasets/a/b", "jobs/a",
                           "datasets/a@0", "datasets/../x"}) {
    EXPECT_EQ(GetDataset(name, &dataset).error_code(), bad) << name;
    EXPECT_EQ(DeleteDataset(name).error_code(), bad) << name;
  }
  EXPECT_EQ(DeleteDataset("datasets/none").error_code(), StatusCode::NOT_FOUND);
  v1::QueryBlobsRequest query;
  v1::QueryBlobsResponse states;
  query.add_sha256("..");
  EXPECT_EQ(datasets_->QueryBlobs(Context().get(), query, &states).error_code(),
            bad);
  std::string data;
  EXPECT_EQ(DownloadBlob("../../jobs.sqlite", 0, &data).error_code(), bad);
}

TEST_F(DatasetFixture, ListsByNameAndLabelInPages) {
  for (const char* id : {"c", "a", "b"}) UploadDataset(id, {{"f", id}});
  v1::CreateDatasetRequest labelled = CreateRequest("b", {{"f", "b"}});
  (*labelled.mutable_labels())["k"] = "v";
  v1::Dataset dataset;
  ASSERT_TRUE(CreateDataset(labelled, &dataset).ok());
  v1::ListDatasetsRequest request;
  v1::ListDatasetsResponse page;
  request.set_page_size(2);
  ASSERT_TRUE(datasets_->ListDatasets(Context().get(), request, &page).ok());
  ASSERT_EQ(page.datasets_size(), 2);
  EXPECT_EQ(page.datasets(0).name(), "datasets/a");
  EXPECT_EQ(page.datasets(1).name(), "datasets/b");
  request.set_page_token(page.next_page_token());
  ASSERT_TRUE(datasets_->ListDatasets(Context().get(), request, &page).ok());
  ASSERT_EQ(page.datasets_size(), 1);
  EXPECT_EQ(page.datasets(0).name(), "datasets/c");
  EXPECT_EQ(page.next_page_token(), "");
  request.set_page_token("garbage");
  EXPECT_EQ(
      datasets_->ListDatasets(Context().get(), request, &page).error_code(),
      StatusCode::INVALID_ARGUMENT);
  request.clear_page_token();
  request.set_page_size(-1);
  EXPECT_EQ(
      datasets_->ListDatasets(Context().get(), request, &page).error_code(),
      StatusCode::INVALID_ARGUMENT);
  request.set_page_size(0);
  (*request.mutable_labels())["k"] = "v";
  ASSERT_TRUE(datasets_->ListDatasets(Context().get(), request, &page).ok());
  ASSERT_EQ(page.datasets_size(), 1);
  EXPECT_EQ(page.datasets(0).name(), "datasets/b");
}

TEST_F(DatasetFixture, DeletionFreesWhatNothingElseHas) {
  UploadDataset("d", {{"shared", std::string(1000, 's')},
                      {"old", std::string(500, 'o')}});
  UploadDataset("d", {{"shared", std::string(1000, 's')}});
  UploadDataset("e", {{"copy", std::string(500, 'o')}});
  int64_t freed = 0;
  ASSERT_TRUE(DeleteDataset("datasets/d@1", &freed).ok());
  EXPECT_LT(freed, 500);  // its list of files alone
  EXPECT_GT(freed, 0);
  EXPECT_TRUE(QueryBlob(Sha256Hex(std::string(500, 'o'))).complete());
  EXPECT_EQ(DeleteDataset("datasets/d@1").error_code(), StatusCode::NOT_FOUND);
  ASSERT_TRUE(DeleteDataset("datasets/e", &freed).ok());
  EXPECT_GE(freed, 500);
  EXPECT_FALSE(QueryBlob(Sha256Hex(std::string(500, 'o'))).complete());
  Restart();
  v1::Dataset dataset;
  ASSERT_TRUE(GetDataset("datasets/d", &dataset).ok());
  EXPECT_EQ(dataset.versions_size(), 1);
  EXPECT_EQ(dataset.versions(0).number(), 2);
  // Numbers are not used twice.
  dataset = UploadDataset("d", {{"third", "3"}});
  EXPECT_EQ(dataset.versions(1).number(), 3);
}

TEST_F(DatasetFixture, BoundsOfTheServer) {
  options_.datasets.blobs.quota_bytes = 1000;
  options_.datasets.limits.max_files = 2;
  options_.datasets.max_datasets = 1;
  options_.datasets.max_versions = 2;
  Restart();
  grpc::Status status = UploadBlob(std::string(1001, 'x'));
  EXPECT_EQ(status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("1000 are free of the quota"));
  v1::Dataset dataset;
  UploadDataset("d", {{"a", "1"}, {"b", "2"}});
  const auto code = [&](const std::string& id, const Files& files) {
    for (const auto& [path, data] : files) UploadBlob(data);
    return CreateDataset(CreateRequest(id, files), &dataset).error_code();
  };
  EXPECT_EQ(code("d", {{"a", "1"}, {"b", "2"}, {"c", "3"}}),
            StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(code("e", {{"a", "1"}}), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(code("d", {{"a", "1"}}), StatusCode::OK);
  EXPECT_EQ(code("d", {{"b", "2"}}), StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(DatasetFixture, DescribesWhatIsInside) {
  UploadDataset("d", {{"t.tsv", "id\tlabel\n1\tyes\n2\tno\n3\tyes\n"},
                      {"u.txt", "one two three\n"}});
  v1::DescribeDatasetRequest request;
  request.set_name("datasets/d");
  v1::DatasetDescription description;
  // The second answer is the kept one.
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(
        datasets_->DescribeDataset(Context().get(), request, &description)
            .ok());
    EXPECT_EQ(description.version(), "datasets/d@1");
    ASSERT_EQ(description.files_size(), 2);
    EXPECT_EQ(description.files(0).rows(), 3);
    EXPECT_EQ(description.files(0).labels(0).label(), "yes");
    EXPECT_EQ(description.files(0).labels(0).rows(), 2);
    EXPECT_EQ(description.files(0).size_bytes(), 26);
    EXPECT_EQ(description.endings_size(), 2);
  }
  request.set_path("u.txt");
  request.set_label_column(0);
  ASSERT_TRUE(
      datasets_->DescribeDataset(Context().get(), request, &description).ok());
  ASSERT_EQ(description.files_size(), 1);
  request.set_path("none");
  EXPECT_EQ(datasets_->DescribeDataset(Context().get(), request, &description)
                .error_code(),
            StatusCode::NOT_FOUND);
  request.set_path("../../x");
  EXPECT_EQ(datasets_->DescribeDataset(Context().get(), request, &description)
                .error_code(),
            StatusCode::INVALID_ARGUMENT);
  ASSERT_TRUE(DeleteDataset("datasets/d").ok());
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path() + "/data/descriptions"));
}

// The attack: one viewer keeps the thread that describes busy, and all places
// in front of it.
TEST_F(DatasetFixture, NobodyOccupiesDescriptions) {
  options_.describer.max_pending_of_user = 1;
  Restart();
  UploadDataset("d", {{"t.txt", "one\n"}});
  const auto access = v1::AccessService::NewStub(channel_);
  const auto token = [&](const std::string& by, const std::string& user,
                         v1::Role role) {
    v1::CreateTokenRequest request;
    request.set_user(user);
    request.set_role(role);
    v1::CreateTokenResponse made;
    const auto context = Context();
    context->AddMetadata("authorization", "Bearer " + by);
    EXPECT_TRUE(access->CreateToken(context.get(), request, &made).ok());
    return made.secret();
  };
  const std::string root = token("", "root", v1::ROLE_ADMIN);
  const std::string vera = token(root, "vera", v1::ROLE_VIEWER);
  const std::string bob = token(root, "bob", v1::ROLE_VIEWER);
  const auto describe = [&](const std::string& secret) {
    v1::DescribeDatasetRequest request;
    request.set_name("datasets/d");
    v1::DatasetDescription description;
    const auto context = Context();
    context->AddMetadata("authorization", "Bearer " + secret);
    return datasets_->DescribeDataset(context.get(), request, &description);
  };
  // What is kept of the file is a pipe, so that reading it waits for the test.
  const std::string folder =
      folder_.path() + "/data/descriptions/" + Sha256Hex("one\n");
  const std::string pipe = folder + "/" + Sha256Hex("1/d/t.txt").substr(0, 16);
  std::filesystem::create_directories(folder);
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  grpc::Status first, others;
  std::thread first_call([&] { first = describe(vera); });
  // There is a reader once the call is under way.
  int writer = -1;
  while ((writer = open(pipe.c_str(), O_WRONLY | O_NONBLOCK)) < 0) {
    ASSERT_EQ(errno, ENXIO);
    std::this_thread::yield();
  }
  const grpc::Status second = describe(vera);
  EXPECT_EQ(second.error_code(), StatusCode::UNAVAILABLE);
  EXPECT_THAT(second.error_message(), HasSubstr("are under way"));
  // Somebody else's waits for its turn, and comes to it. The file's name is
  // free then.
  std::thread others_call([&] { others = describe(bob); });
  ASSERT_EQ(unlink(pipe.c_str()), 0);
  close(writer);
  first_call.join();
  others_call.join();
  EXPECT_TRUE(first.ok()) << first.error_message();
  EXPECT_TRUE(others.ok()) << others.error_message();
  EXPECT_TRUE(describe(vera).ok());
}

}  // namespace
}  // namespace comera::server
