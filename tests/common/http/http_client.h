// A small blocking HTTP client for tests: shows exactly what was sent.
#ifndef COMERA_TESTS_COMMON_HTTP_HTTP_CLIENT_H_
#define COMERA_TESTS_COMMON_HTTP_HTTP_CLIENT_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace comera {

struct HttpReply {
  // 0: no answer came, or it was cut off.
  int code = 0;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;

  // The value of the header, in any case of letters; empty: none.
  std::string Header(const std::string& name) const;
};

// One connection; not thread-safe. Waits at most 20 s.
class HttpClient {
 public:
  using Headers = std::vector<std::pair<std::string, std::string>>;

  // `address`: 127.0.0.1:PORT. `from`: the address of loopback that it comes
  // from.
  explicit HttpClient(const std::string& address,
                      const std::string& from = "127.0.0.1");
  ~HttpClient();

  // Host, and for a body Content-Length and the JSON type, are added unless
  // they are in `headers`.
  HttpReply Call(const std::string& method, const std::string& target,
                 const Headers& headers = {}, const std::string& body = "");
  // The same, with the answer's head only; its body comes by ReadPart().
  HttpReply Begin(const std::string& method, const std::string& target,
                  const Headers& headers = {}, const std::string& body = "");
  // More of the body; empty: its end. `*cut` if it broke off.
  std::string ReadPart(bool* cut);
  // The lines of a stream's next event, without comments; empty: the end.
  std::string ReadEvent();

  // Bytes as they are.
  void SendRaw(const std::string& bytes);
  // So many; fewer at the end.
  std::string ReadRaw(size_t bytes);
  HttpReply Receive(bool head_only = false);
  bool IsClosed();

 private:
  bool Fill();
  std::string Line();

  const std::string address_;
  int socket_ = -1;
  std::string buffer_;
  std::string events_;
  bool chunked_ = false;
  bool until_close_ = false;
  size_t left_ = 0;
};

}  // namespace comera

#endif  // COMERA_TESTS_COMMON_HTTP_HTTP_CLIENT_H_
