#ifndef COMERA_SERVER_API_BACKUP_SERVICE_H_
#define COMERA_SERVER_API_BACKUP_SERVICE_H_

#include <memory>

#include "comera/v1/backup_service.grpc.pb.h"
#include "server/auth/access.h"
#include "server/host/coordinator_host.h"
#include "server/runtime/event_loop.h"
#include "server/store/job_store.h"

namespace comera::server {

// Online backups of the store, one at a time, on a thread of their own.
// Thread-safe. Errors: backup_service.proto.
class BackupService : public v1::BackupService::CallbackService {
 public:
  // All must outlive the RPC server.
  BackupService(CoordinatorHost* host, AccessControl* access, JobStore* store);

  grpc::ServerWriteReactor<v1::CreateBackupResponse>* CreateBackup(
      grpc::CallbackServerContext* context,
      const v1::CreateBackupRequest* request) override;

 private:
  CoordinatorHost* const host_;
  AccessControl* const access_;
  JobStore* const store_;
  // Blocks for as long as a copy takes.
  EventLoop thread_;
  // A stream has not ended; only the host's loop touches it.
  // Shared with streams, which may end after the service.
  const std::shared_ptr<bool> busy_ = std::make_shared<bool>(false);
};

}  // namespace comera::server

#endif  // COMERA_SERVER_API_BACKUP_SERVICE_H_
