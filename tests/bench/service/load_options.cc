// Opens separate connections to a server.

#include "tests/bench/service/load_options.h"

namespace comera::bench {

Channels Connect(const std::string& address, int connections) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  Channels channels;
  for (int i = 0; i < connections; ++i) {
    channels.push_back(grpc::CreateCustomChannel(
        address, grpc::InsecureChannelCredentials(), arguments));
  }
  return channels;
}

}  // namespace comera::bench
