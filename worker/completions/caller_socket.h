#ifndef COMERA_WORKER_COMPLETIONS_CALLER_SOCKET_H_
#define COMERA_WORKER_COMPLETIONS_CALLER_SOCKET_H_

struct mg_connection;

namespace comera::worker {

// Tells whether the caller of a connection is still there, without a word to
// it. CivetWeb does not hand out its sockets, so the connection's is looked up
// by its two addresses among those of this process.
class CallerSocket {
 public:
  // `connection` must stay open as long as this is used.
  explicit CallerSocket(const mg_connection* connection);

  // Whether the caller has closed the connection, or its side of it: the two
  // cannot be told apart before something is sent.
  bool HasLeft() const;

 private:
  int socket_;  // -1: not found, so that nobody is seen to leave
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_COMPLETIONS_CALLER_SOCKET_H_
