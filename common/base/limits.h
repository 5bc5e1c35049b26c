// Every limit of the system in one place, with its unit in its name and where the number comes from.
//
// Constants only. What lies beyond one is refused with an error that names it, never truncated in silence.
#pragma once

#include <cstddef>
#include <cstdint>

namespace numoe::limits {

// --- checkpoints -----------------------------------------------------------------------------------------
// The safetensors reference reader refuses headers over 100 MB.
inline constexpr uint64_t kSafetensorsHeaderBytesMax = 100'000'000;
// The largest published config.json / tokenizer.json are 12 MB (tokenizer.json with merges); 256 MB is
// absurd.
inline constexpr uint64_t kJsonFileBytesMax = 256ull << 20;
// Kimi-K2.5 has 208,550 tensors in 64 files.
inline constexpr size_t kCheckpointTensorsMax = 4'000'000;
inline constexpr size_t kCheckpointFilesMax = 10'000;
// A published GGUF file has 40 to 70 keys; key names are limited by its specification.
inline constexpr uint64_t kGgufKeysMax = 65'536;
inline constexpr uint64_t kGgufKeyBytesMax = 65'535;
// ggml's reader refuses longer names of tensors, and more dimensions.
inline constexpr uint64_t kGgufTensorNameBytesMax = 63;
inline constexpr uint32_t kGgufDimensionsMax = 4;
// Files align to 32 or 64 bytes; no more than a page of the largest kind makes sense.
inline constexpr uint64_t kGgufAlignmentMax = 1ull << 30;

// --- loading ---------------------------------------------------------------------------------------------
// One read, and what one thread packs at a time: large enough that any disk is busy with a few of them.
inline constexpr size_t kLoadChunkBytes = 2ull << 20;
inline constexpr size_t kLoadChunkBytesMin = 64ull << 10;
// The same where the bytes come from the page cache: they stay in the second-level cache until they are
// packed.
inline constexpr size_t kLoadCachedChunkBytes = 256ull << 10;
inline constexpr int kLoadReadsMax = 8;  // in flight for each thread
// Threads that wait for pages of mapped files, each for 2 to 4 MiB: 64 MiB or more are under way.
inline constexpr size_t kMappingThreadsMin = 32;
// Buffers of all threads together: no more than this, and no more than 1/32 of the slice.
inline constexpr size_t kLoadStagingBytesMax = 256ull << 20;
inline constexpr int kLoadReportSeconds = 5;  // between two lines of progress

// --- model -----------------------------------------------------------------------------------------------
inline constexpr int kHiddenSizeMax = 65'536;
inline constexpr int kLayersMax = 1'024;
inline constexpr int kExpertsMax = 4'096;
inline constexpr int kGpuExpertsMax =
    512;  // of a layer in slots: what the sort of pairs counts in shared memory
inline constexpr int kExpertsPerTokenMax = 64;
inline constexpr int kSharedExpertsMax = 64;
inline constexpr int kVocabularyMax = 1 << 24;  // the largest published vocabulary is 256k
// The longest tokens of published vocabularies are runs of 128 or 256 characters.
inline constexpr size_t kTokenBytesMax = 4'096;
inline constexpr int kHeadsMax = 4'096;
inline constexpr int kHeadDimMax = 4'096;
inline constexpr int kRankMax = 65'536;  // low-rank projections are narrower than the hidden state
inline constexpr int kIntermediateMax = 1 << 22;
inline constexpr int64_t kPositionsMax = int64_t{1} << 31;
inline constexpr double kEpsilonMin = 1e-12;                // 0 would divide a zero vector by zero
inline constexpr double kThetaMin = 1.1, kThetaMax = 1e12;  // YaRN divides by its logarithm

// Tokens in the KV cache: blocks are counted in 32 bits. More than 1 PB at the smallest size of a token.
inline constexpr int64_t kKvTokensMax = int64_t{1} << 31;
// --- processes -------------------------------------------------------------------------------------------
inline constexpr int kThreadsMax = 4'096;  // compute threads; the largest hosts have 1,024 CPUs

// --- layer calls -----------------------------------------------------------------------------------------
// Tokens in one expert layer call; the scheduler's step budget may not exceed it. 8192 x 7168 BF16 = 117 MB.
inline constexpr int kCallTokensMax = 8'192;
// The same where experts are deferred: both replies of a call lie in one slot.
inline constexpr int kDeferringTokensMax = kCallTokensMax / 2;
// Rows of logits in one step beyond one for each sequence, for the probabilities of prompts: at Kimi's
// vocabulary 84 MB, and a whole chunk of deterministic serving.
inline constexpr int kPromptLogitRowsMax = 128;
inline constexpr int kWorkersMax = 64;
// A certificate, a key or a bundle of CAs: the one that Debian trusts has 220 kB.
inline constexpr uint64_t kTlsFileBytesMax = 1 << 20;
// Long against a conversation, short against a day's change of what people ask.
inline constexpr double kExpertHalfLifeSeconds = 600;

// --- HTTP ------------------------------------------------------------------------------------------------
inline constexpr size_t kHttpBodyBytesMax = 32ull << 20;  // a 256k-token prompt is about 1.5 MB of text
inline constexpr size_t kHttpHeaderBytesMax = 64ull << 10;
// Read ahead while a request is answered, where mostly nothing comes: a page's next request has room in it.
inline constexpr size_t kHttpWatchBytes = 1ull << 10;
inline constexpr int kHttpReadTimeoutSeconds = 30;   // slow-loris bound for a whole request
inline constexpr int kHttpIdleTimeoutSeconds = 75;   // between requests, as nginx
inline constexpr int kHttpWriteTimeoutSeconds = 60;  // for what was handed to the socket in one piece
inline constexpr int kHttpLingerSeconds = 2;         // reading on after an answer that ends the connection
inline constexpr int kHttpFinishSeconds = 5;         // for the last bytes of answers when the server ends
// A client may be this far behind its stream: 100,000 tokens' events or so.
inline constexpr size_t kHttpStreamQueueBytesMax = 8u << 20;
inline constexpr size_t kHttpRequestIdBytesMax = 128;
// Descriptors a daemon or bench asks for: one for each connection. More would be of no use to 4096 sequences.
inline constexpr uint64_t kDescriptorsMax = 65'536;
// Answers of /v1/responses that are kept, and their text: a long conversation is 100 kB.
inline constexpr size_t kStoredResponsesMax = 10'000;
inline constexpr size_t kStoredResponsesBytesMax = 256ull << 20;
inline constexpr int kChoicesMax = 128;  // prompts times n of one request

// --- clients ---------------------------------------------------------------------------------------------
inline constexpr size_t kSseEventBytesMax = 16ull << 20;  // a call with a whole file in its arguments is 1 MB
inline constexpr size_t kClientReplyBytesMax = 64ull << 20;  // that is held whole: models, tokens, errors
inline constexpr size_t kAnswerCallsMax = 128;               // of one answer; OpenAI allows as many tools
inline constexpr int kClientConnectSeconds = 10;
inline constexpr int kClientGoneSeconds = 30;            // a host that answers no keepalive
inline constexpr int kClientReplySeconds = 60;           // silence while a reply is fetched whole
inline constexpr int kClientSilenceSeconds = 6 * 3'600;  // of an answer: vLLM's and SGLang's bench clients'

// --- router ----------------------------------------------------------------------------------------------
inline constexpr int kRouterBackendsMax = 64;
// Beginnings of prompts that are remembered, 80 bytes each: those of 8,000 conversations of 4k tokens.
inline constexpr size_t kRouterPrefixesMax = 1 << 19;
// A backend that computed a prompt's beginning gets the request while it has no more to do than this factor
// of what the least loaded one has, plus so many requests: on an idle house nothing is spread for its own
// sake.
inline constexpr double kRouterLoadFactorMax = 1.5;
inline constexpr int kRouterLoadSlack = 4;
inline constexpr double kRouterLookSeconds = 1;          // between looks at a backend's health
inline constexpr double kRouterBackOffSecondsMin = 0.5;  // at one that is out; doubled up to 5 looks
inline constexpr int kRouterLookSilenceSeconds = 5;      // for a backend to say how it is
inline constexpr int kRouterConnectSeconds = 3;
inline constexpr double kRouterNameSeconds = 30;  // how long a backend's address is believed while it answers
inline constexpr double kRouterGroupSeconds = 5;  // between looks at the name of a group of backends
inline constexpr size_t kRouterWholeBytesMax = 256 << 10;  // of an answer that is passed on in one piece
inline constexpr size_t kRouterGatherBytesMax = 16 << 20;  // of an answer that is put together with others

// --- traces ----------------------------------------------------------------------------------------------
// Spans that wait for the collector: about 1 kB each, some seconds of the busiest server.
inline constexpr size_t kTraceSpansMax = 8'192;
inline constexpr size_t kTraceBatchSpansMax = 512;  // OpenTelemetry's SDKs' own
inline constexpr int kTraceSendSeconds = 10;        // for one batch; theirs too
inline constexpr int kTraceFlushSeconds = 2;        // for all that is left at the end

// --- chat templates --------------------------------------------------------------------------------------
inline constexpr int64_t kTemplateStepsMax = 2'000'000;  // a 200-message conversation takes about 20,000
inline constexpr size_t kTemplateOutputBytesMax = 64ull << 20;
inline constexpr int kTemplateDepthMax = 200;

// --- structured output -----------------------------------------------------------------------------------
// Sources are a few kB; 1 MB of any of them compiles or is refused within a second or so.
inline constexpr size_t kGrammarSourceBytesMax = 1 << 20;
inline constexpr size_t kGrammarNestingMax = 200;  // as templates; every level is a few stack frames
inline constexpr size_t kGrammarExpressionsMax = 1'000'000;
// A property of a schema takes about 30 states; 400,000 are 16 MB while compiling.
inline constexpr size_t kGrammarNfaStatesMax = 400'000;
inline constexpr size_t kGrammarDfaStatesMax = 60'000;
inline constexpr size_t kGrammarSubsetItemsMax = 4'000'000;  // 16 MB
// Derivations of one text that are followed at once. JSON needs a handful; ambiguous EBNF can ask for any
// number.
inline constexpr size_t kGrammarThreadsMax = 1'024;
// Automaton steps for one mask; walking Kimi's whole vocabulary with one derivation takes 0.4 million.
inline constexpr size_t kGrammarMaskStepsMax = 4'000'000;
inline constexpr size_t kGrammarCrossingBytesMax = 1 << 20;  // token remainders kept for one state
// Steps for masks computed while compiling; a few ms, and all states of usual schemas.
inline constexpr size_t kGrammarWarmStepsMax = 1'000'000;
// Masks kept for one grammar; 20 kB each at Kimi's vocabulary where most tokens are allowed. Beyond, they are
// computed each time.
inline constexpr size_t kGrammarMaskBytesMax = 64ull << 20;
inline constexpr size_t kGrammarCacheBytesMax = 512ull << 20;  // grammars of past requests
inline constexpr size_t kGrammarRollbackTokensMax = 64;        // drafted tokens of one speculative step
// Tools of a request, each with a schema to compile. OpenAI takes 128.
inline constexpr size_t kToolsMax = 1'024;
inline constexpr size_t kToolNameBytesMax = 256;  // OpenAI's have 64

}  // namespace numoe::limits
