// gRPC's own log lines in ours, with the few that operators meet said in words that tell what to do.
//
// gRPC says errors alone (GRPC_VERBOSITY says otherwise) and repeats them for every connection: a line comes
// once in ten seconds. RouteGrpcLog is called once, by main, after SetupLogging; ExplainGrpcLine is pure.
#pragma once

#include <string>
#include <string_view>

namespace numoe {

void RouteGrpcLog();

std::string ExplainGrpcLine(std::string_view line);

}  // namespace numoe
