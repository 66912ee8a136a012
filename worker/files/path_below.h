#ifndef COMERA_WORKER_FILES_PATH_BELOW_H_
#define COMERA_WORKER_FILES_PATH_BELOW_H_

#include <string>
#include <string_view>

namespace comera::worker {

// The name of a file or folder in two parts, of which only the first can be
// trusted: members of gangs may have put a link or anything else in the place
// of every part of the second. OpenFolder and PlainFile open it accordingly.
struct PathBelow {
  // A folder that only this daemon and its operator change, as a path of its
  // own. Links in it are the operator's and are followed.
  std::string root;
  // The way from there, relative and without ".."; no link on it is followed.
  // Empty for the folder itself.
  std::string below;

  // The whole path, for messages and for programs that open it with rights of
  // their own.
  std::string ToString() const {
    return below.empty() ? root : root + "/" + below;
  }
  // The file of that name in this folder.
  PathBelow Child(std::string_view name) const {
    return {root, (below.empty() ? "" : below + "/") + std::string(name)};
  }
  // The folder that holds it. `below` must not be empty.
  PathBelow Parent() const {
    const size_t slash = below.rfind('/');
    return {root, slash == std::string::npos ? "" : below.substr(0, slash)};
  }
  // The last part of its name. `below` must not be empty.
  std::string Name() const { return below.substr(below.rfind('/') + 1); }
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_FILES_PATH_BELOW_H_
