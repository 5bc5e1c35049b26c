#include "coordinator/serving/api/absent_routes.h"

namespace numoe::serving {
namespace {

constexpr char kEmbeddings[] =
    "NUMoE serves text generation only and has no embeddings; use a server that runs an embedding model";
constexpr char kScores[] =
    "NUMoE serves text generation only and does not score, classify or rerank texts; use a server that runs "
    "a "
    "model for that";
constexpr char kAudio[] =
    "NUMoE serves text generation only and has neither speech nor transcription; use a server that runs an "
    "audio "
    "model";
constexpr char kImages[] =
    "NUMoE serves text generation only and generates no images; use a server that runs an image model";
constexpr char kOllamaChat[] =
    "this is an Ollama route, and NUMoE speaks the OpenAI API; use POST /v1/chat/completions";
constexpr char kOllamaText[] =
    "this is an Ollama route, and NUMoE speaks the OpenAI API; use POST /v1/completions";
constexpr char kOllamaModels[] =
    "this is an Ollama route, and NUMoE speaks the OpenAI API; GET /v1/models lists the model of this server";
constexpr char kOllamaChange[] =
    "this is an Ollama route, and NUMoE serves the one model that it was started with; GET /v1/models lists "
    "it";

constexpr char kOwnText[] =
    "this is llama.cpp's own route; use POST /v1/completions, or SGLang's POST /generate";
constexpr char kInfill[] = "NUMoE does not fill in the middle of a text; use POST /v1/completions";
constexpr char kProps[] = "this is llama.cpp's own route; use GET /server_info or GET /metrics";
constexpr char kFiles[] =
    "NUMoE stores no files and no batches; send the requests one by one, many at a time";
constexpr char kSchema[] = "there is no page of documentation; GET /openapi.json describes the API";

struct AbsentRoute {
  const char* path;  // a '/' at the end means every path below it
  const char* explanation;
};

// Also found without /v1 (UrlTable).
constexpr AbsentRoute kAbsent[] = {{"/v1/embeddings", kEmbeddings},
                                   // llama.cpp, SGLang and vLLM
                                   {"/embedding", kEmbeddings},
                                   {"/encode", kEmbeddings},
                                   {"/pooling", kEmbeddings},
                                   {"/v1/score", kScores},
                                   {"/v1/rerank", kScores},
                                   // Cohere, llama.cpp and vLLM
                                   {"/v2/rerank", kScores},
                                   {"/v1/reranking", kScores},
                                   {"/classify", kScores},
                                   {"/v1/audio/", kAudio},
                                   {"/v1/images/", kImages},
                                   // llama.cpp
                                   {"/completion", kOwnText},
                                   {"/infill", kInfill},
                                   {"/props", kProps},
                                   {"/slots", kProps},
                                   // OpenAI
                                   {"/v1/files", kFiles},
                                   {"/v1/batches", kFiles},
                                   {"/docs", kSchema},
                                   // Ollama
                                   {"/api/version", kOllamaModels},
                                   {"/api/chat", kOllamaChat},
                                   {"/api/generate", kOllamaText},
                                   {"/api/embed", kEmbeddings},
                                   {"/api/embeddings", kEmbeddings},
                                   {"/api/tags", kOllamaModels},
                                   {"/api/ps", kOllamaModels},
                                   {"/api/show", kOllamaModels},
                                   {"/api/pull", kOllamaChange},
                                   {"/api/push", kOllamaChange},
                                   {"/api/create", kOllamaChange},
                                   {"/api/copy", kOllamaChange},
                                   {"/api/delete", kOllamaChange},
                                   {"/api/blobs/", kOllamaChange}};

}  // namespace

void ExplainAbsentRoutes(net::UrlTable& urls) {
  for (const AbsentRoute& route : kAbsent) urls.Explain(route.path, route.explanation);
}

}  // namespace numoe::serving
