// Writes gRPC's own log lines to our log. The few that operators see are rephrased, so that they say what to
// do.
//
// gRPC logs only errors (unless GRPC_VERBOSITY says otherwise) and repeats them for every connection, so a
// line is written once in ten seconds. Main calls RouteGrpcLog once, after SetupLogging; ExplainGrpcLine is a
// pure function.
#pragma once

#include <string>
#include <string_view>

namespace numoe {

void RouteGrpcLog();

std::string ExplainGrpcLine(std::string_view line);

}  // namespace numoe
