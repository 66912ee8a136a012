#ifndef COMERA_TESTS_SERVER_DATASET_DATASET_FIXTURE_H_
#define COMERA_TESTS_SERVER_DATASET_DATASET_FIXTURE_H_

#include <map>
#include <memory>
#include <string>

#include "comera/v1/dataset_service.grpc.pb.h"
#include "tests/server/daemon/server_fixture.h"

namespace comera::server {

// A server with a stub of DatasetService.
class DatasetFixture : public ServerFixture {
 protected:
  // Path -> contents.
  using Files = std::map<std::string, std::string>;

  DatasetFixture();

  // With the fixture's options, anew.
  void Restart();

  // Bytes [offset, offset + count) of `data` as a part of it.
  grpc::Status UploadBlob(const std::string& data, int64_t offset = 0,
                          int64_t count = -1);
  v1::BlobState QueryBlob(const std::string& sha256);
  grpc::Status DownloadBlob(const std::string& sha256, int64_t offset,
                            std::string* data);
  static v1::CreateDatasetRequest CreateRequest(const std::string& id,
                                                const Files& files);
  grpc::Status CreateDataset(const v1::CreateDatasetRequest& request,
                             v1::Dataset* dataset);
  // Blobs and version; fails the test if a call fails.
  v1::Dataset UploadDataset(const std::string& id, const Files& files);
  grpc::Status GetDataset(const std::string& name, v1::Dataset* dataset);
  grpc::Status DeleteDataset(const std::string& name, int64_t* freed = nullptr);

  std::unique_ptr<v1::DatasetService::Stub> datasets_;
};

}  // namespace comera::server

#endif  // COMERA_TESTS_SERVER_DATASET_DATASET_FIXTURE_H_
