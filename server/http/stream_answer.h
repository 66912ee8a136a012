#ifndef COMERA_SERVER_HTTP_STREAM_ANSWER_H_
#define COMERA_SERVER_HTTP_STREAM_ANSWER_H_

#include <memory>

#include "common/http/http_exchange.h"
#include "google/protobuf/message.h"
#include "server/http/api_calls.h"
#include "server/http/stream_format.h"

namespace comera::server {

// Calls a server stream and answers with what it tells, as fast as the reader
// takes it: the next message is asked for when the last one is written. An
// error before the first message is the answer's; a reader who goes ends the
// call.
void AnswerWithStream(std::shared_ptr<HttpExchange> exchange, ApiCalls* calls,
                      const google::protobuf::MethodDescriptor& method,
                      const google::protobuf::Message& request,
                      const ApiCaller& caller,
                      std::unique_ptr<StreamFormat> format);

}  // namespace comera::server

#endif  // COMERA_SERVER_HTTP_STREAM_ANSWER_H_
