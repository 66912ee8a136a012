#ifndef COMERA_WORKER_DATA_DATA_ROOTS_H_
#define COMERA_WORKER_DATA_DATA_ROOTS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "comera/v1/job.pb.h"
#include "google/protobuf/repeated_field.h"
#include "proto/data_paths.h"
#include "worker/data/rooted_path.h"

namespace comera::worker {

// Decides which files of this machine a job may read: those below the folders
// that the operator offers, and the datasets that were fetched for the job.
//
// Nobody may read /proc, /sys, /dev and the daemon's own files, even where they
// lie below a folder that is offered. Files are told by what they are, not by
// their names, so links and mounts of one of these do not help; copies and,
// for folders that are walked, hard links of single files cannot be told. What
// a folder or a pattern could reach is also looked up in the table of mounts.
//
// Immutable, but the files are looked at anew at each check.
class DataRoots {
 public:
  struct Options {
    // The folders that the operator offers; none means that jobs read datasets
    // only, "/" everything but what is refused always.
    std::vector<std::string> folders;
    // The daemon's files and folders, which may be missing; "" is passed over.
    std::vector<std::string> own;
    // The folder in which a dataset's version has its files, in a folder named
    // by its digest; below one of `own`.
    std::string views;
    // The kernel's table of mounts; another file only in tests.
    std::string mount_info = "/proc/self/mountinfo";
  };

  // Offers nothing, not even datasets.
  DataRoots() = default;

  // InvalidArgument, naming --data_root: a folder is none, or lies in what is
  // refused always.
  static absl::StatusOr<DataRoots> Create(const Options& options);

  // Checks every path in the spec of a job whose datasets, those of `pins`,
  // have been fetched and replaced by local paths. InvalidArgument, with the
  // field: a path is outside the roots, refused always, missing, or names a
  // folder that holds what is refused. Unavailable: the files cannot be looked
  // at now. Takes as long as the file systems do, at worst for ever.
  absl::Status Check(const v1::JobSpec& spec,
                     const google::protobuf::RepeatedPtrField<v1::DatasetPin>&
                         pins = {}) const;
  // Whether the spec has paths that Check would look at.
  static bool Concerns(const v1::JobSpec& spec);

 private:
  // What is refused always: its names, with and without symbolic links, and its
  // identity if it exists.
  struct Refused;
  // What the machine is like at one check.
  struct Present;

  // Where symbolic links lead and mounts are now.
  absl::StatusOr<Present> Inspect() const;
  std::vector<Refused> FindRefused() const;
  absl::Status CheckPath(const DataPath& path, const Present& present) const;
  // Checks the symbolic links directly in the folder, a resolved one, of the
  // names that jobs read.
  absl::Status CheckLinksIn(
      const std::string& folder, const Present& present,
      const std::function<bool(absl::string_view)>& is_read) const;

  // Their names without symbolic links are those at the start.
  std::vector<PathRoot> roots_;
  std::vector<std::string> own_;
  // The folder with the views; "" if there is none.
  std::string views_;
  std::string mount_info_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_DATA_DATA_ROOTS_H_
