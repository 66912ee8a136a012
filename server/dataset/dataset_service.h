#ifndef COMERA_SERVER_DATASET_DATASET_SERVICE_H_
#define COMERA_SERVER_DATASET_DATASET_SERVICE_H_

#include <memory>
#include <string>

#include "comera/v1/dataset_service.grpc.pb.h"
#include "server/auth/access.h"
#include "server/dataset/dataset_catalog.h"
#include "server/dataset/dataset_describer.h"

namespace comera::server {

// DatasetService over a DatasetCatalog: checks requests, translates errors.
// Thread-safe; never blocks a gRPC thread. Errors: dataset_service.proto.
class DatasetService : public v1::DatasetService::CallbackService {
 public:
  // All must outlive the server.
  DatasetService(DatasetCatalog* catalog, DatasetDescriber* describer,
                 AccessControl* access)
      : catalog_(catalog), describer_(describer), access_(access) {}

  grpc::ServerUnaryReactor* QueryBlobs(
      grpc::CallbackServerContext* context,
      const v1::QueryBlobsRequest* request,
      v1::QueryBlobsResponse* response) override;
  grpc::ServerReadReactor<v1::UploadBlobRequest>* UploadBlob(
      grpc::CallbackServerContext* context,
      v1::UploadBlobResponse* response) override;
  grpc::ServerUnaryReactor* CreateDataset(
      grpc::CallbackServerContext* context,
      const v1::CreateDatasetRequest* request, v1::Dataset* response) override;
  grpc::ServerUnaryReactor* GetDataset(grpc::CallbackServerContext* context,
                                       const v1::GetDatasetRequest* request,
                                       v1::Dataset* response) override;
  grpc::ServerUnaryReactor* ListDatasets(
      grpc::CallbackServerContext* context,
      const v1::ListDatasetsRequest* request,
      v1::ListDatasetsResponse* response) override;
  grpc::ServerUnaryReactor* ListDatasetFiles(
      grpc::CallbackServerContext* context,
      const v1::ListDatasetFilesRequest* request,
      v1::ListDatasetFilesResponse* response) override;
  grpc::ServerUnaryReactor* DescribeDataset(
      grpc::CallbackServerContext* context,
      const v1::DescribeDatasetRequest* request,
      v1::DatasetDescription* response) override;
  grpc::ServerUnaryReactor* DeleteDataset(
      grpc::CallbackServerContext* context,
      const v1::DeleteDatasetRequest* request,
      v1::DeleteDatasetResponse* response) override;
  grpc::ServerWriteReactor<v1::DownloadBlobResponse>* DownloadBlob(
      grpc::CallbackServerContext* context,
      const v1::DownloadBlobRequest* request) override;

 private:
  DatasetCatalog* const catalog_;
  DatasetDescriber* const describer_;
  AccessControl* const access_;
};

// Reactors of the streams; each deletes itself.
grpc::ServerReadReactor<v1::UploadBlobRequest>* StartBlobUpload(
    DatasetCatalog* catalog, std::shared_ptr<const Caller> caller,
    v1::UploadBlobResponse* response);
grpc::ServerWriteReactor<v1::DownloadBlobResponse>* StartBlobDownload(
    DatasetCatalog* catalog, grpc::CallbackServerContext* context,
    std::shared_ptr<const Caller> caller, const std::string& worker,
    const v1::DownloadBlobRequest& request);

}  // namespace comera::server

#endif  // COMERA_SERVER_DATASET_DATASET_SERVICE_H_
