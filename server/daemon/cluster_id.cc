// Finds the cluster's name in the store, or puts one there.
#include "server/daemon/cluster_id.h"

#include <vector>

#include "common/status_macros.h"

namespace comera::server {
namespace {

constexpr char kKind[] = "cluster";
constexpr char kName[] = "id";

}  // namespace

absl::StatusOr<std::string> ClusterId(JobStore* store, IdSource* ids) {
  ASSIGN_OR_RETURN(const std::vector<Document> kept,
                   store->LoadDocuments(kKind));
  for (const Document& document : kept) {
    if (document.name == kName && document.body) return *document.body;
  }
  StoreBatch batch;
  const std::string id = ids->NewId();
  batch.documents.push_back({kKind, kName, id});
  RETURN_IF_ERROR(store->Commit(batch));
  return id;
}

}  // namespace comera::server
