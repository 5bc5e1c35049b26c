"""Questions about NUMoE, from its README: some phrasings for every fact, which the generator dresses up."""
import random

from conversation import Conversation, chatter, says, system, user

# (answer, questions); {it} is NUMoE or "it"-less spellings of the name
FACTS: list[tuple[str, str]] = [
    ("NUMoE is a server for trillion-parameter mixture-of-experts models. It runs them from the memory of an ordinary server.",
     "What is {it}?|What's {it}?|Tell me about {it}.|Explain {it}.|What does {it} do?|Describe {it}.|What do you know about {it}?|What is {it} good for?|What is the purpose of {it}?|Do you know {it}?|"
     "What is {it} for?|Can you explain {it}?|Give me a summary of {it}.|Why would I use {it}?|In one sentence, what is {it}?|{it}?|What kind of software is {it}?|Is {it} a server?"),
    ("NUMoE stands for NUMA and MoE.",
     "What does {it} stand for?|What does the name {it} mean?|Where does the name {it} come from?|Why is it called {it}?|What is {it} short for?|Explain the name {it}.|What does NUM in {it} mean?"),
    ("MoE means mixture of experts.", "What does MoE mean?|What is MoE?|What does MoE stand for?|What is a mixture of experts?|What is MoE short for?|Explain MoE.|What do the letters M, o and E mean?|Tell me what MoE is.|For what does MoE stand?|What is meant by MoE?|Spell out MoE: what does it mean?|What is the long form of MoE?|What is a mixture-of-experts model?"),
    ("NUMA means non-uniform memory access.", "What does NUMA mean?|What is NUMA?|What does NUMA stand for?|What is a NUMA node?|What is NUMA short for?|Explain NUMA."),
    ("NUMoE serves Kimi-K2, K2-Thinking, K2.5, DeepSeek-V3, DeepSeek-R1 and Qwen3-MoE.",
     "Which models does {it} support?|Which models does {it} serve?|What models can {it} run?|Which models can I use with {it}?|List the models of {it}.|Which models work with {it}?|What models are supported?|"
     "Can {it} run Kimi?|Does {it} support DeepSeek?|Does {it} support Qwen3?|Can {it} serve Kimi-K2?|Which model families does {it} know?|Which checkpoints does {it} serve?|Does {it} run DeepSeek-R1?"),
    ("The coordinator does attention, routing, shared experts and the OpenAI API.",
     "What does the coordinator do?|What is the coordinator?|What is the job of the coordinator?|What does the coordinator of {it} do?|Explain the coordinator.|What is a coordinator in {it}?|"
     "Which part of {it} does attention?|Which process does routing in {it}?|Where are the shared experts computed?|What role does the coordinator play?|Which process offers the OpenAI API?"),
    ("An expert worker owns a slice of the quantised experts. There is one for every NUMA node.",
     "What does an expert worker do?|What is an expert worker?|What is a worker in {it}?|What do the workers do?|How many expert workers are there?|Explain expert workers.|What is the job of a worker?|"
     "Who owns the experts in {it}?|How many workers do I need?|What does the expert worker own?|One worker for each what?|What does numoe-expert-worker do?|Where do the experts live in {it}?"),
    ("NUMoE is written in C++20.",
     "Which language is {it} written in?|What language is {it} written in?|In which programming language is {it}?|Is {it} written in C++?|Is {it} written in Python?|What is {it} programmed in?|Which C++ version does {it} use?"),
    ("NUMoE offers the OpenAI API over HTTP.",
     "Which API does {it} have?|What API does {it} offer?|How do I talk to {it}?|Is {it} compatible with OpenAI?|Does {it} have an OpenAI API?|Which protocol does {it} speak?|How do clients use {it}?|What interface does {it} have?"),
    ("The default port is 8080.", "Which port does {it} use?|What is the default port?|On which port does {it} listen?|What port is {it} on?|What is the port of {it}?|Which port does quickstart use?|Where does {it} listen?"),
    ("Run deploy/quickstart.sh. It installs, builds and serves.",
     "How do I start {it}?|How do I try {it}?|How can I run {it}?|How do I install {it}?|How do I use {it}?|How to start {it}?|How do I get {it} running?|What is the quickest way to try {it}?|How do I build {it}?|"
     "What does quickstart.sh do?|What is deploy/quickstart.sh?|How can I try {it}?|Which script starts {it}?|How do I set up {it}?|How can I bring {it} up?|What must I do to have {it} running?|Which command sets {it} up?|How is {it} started?|How do I begin with {it}?|I want {it} on this computer. What do I run?|How could one get {it} going here?|How do I serve a model with {it}?|How would I get {it} started here?|How can one start {it} on a computer?|How would you start {it}?|How do I make {it} run on a laptop?"),
    ("Run tests/run.sh. It builds and runs all tests.",
     "How do I test {it}?|How do I run the tests?|How are the tests run?|Which script runs the tests?|What does tests/run.sh do?|How can I run the tests of {it}?|Where are the tests of {it}?|How do I run all tests?"),
    ("The license is Apache-2.0.", "What is the license of {it}?|Which license does {it} have?|Under which license is {it}?|Is {it} open source?|Is {it} free?|What license does {it} use?|How is {it} licensed?|Under what terms may I use {it}?|Tell me the license of {it}.|May companies use {it}?|What is written in the license of {it}?|Can I use {it} for free?"),
    ("On one host, layer calls go through shared memory.",
     "How do layer calls go on one host?|What is used on one host?|How do the processes talk on one host?|How does the coordinator talk to workers on the same host?|Does {it} use shared memory?|What is shared memory used for?"),
    ("Between hosts, layer calls go through a gRPC stream.",
     "How do layer calls go between hosts?|What is used between hosts?|Does {it} use gRPC?|How do workers on other hosts talk?|What is gRPC used for?|Can workers run on other hosts?|Can {it} use several hosts?"),
    ("The requests pause and go on when the worker is back, or fail with 503 after the deadline.",
     "What happens when a worker dies?|What if a worker crashes?|What happens if an expert worker dies?|What does {it} do when a worker fails?|Does {it} survive a dead worker?|What happens to requests when a worker is gone?|"
     "How does {it} handle a crash of a worker?|What if I kill a worker?|A worker died. What now?|When a worker stops, what becomes of my request?|One worker is down. What does {it} do?|What follows when an expert worker ends?|Suppose a worker fails. What then?|If a worker goes down, what does that do?|If some worker dies, what becomes of the requests?|One of the workers has died. What happens?|If one worker stops working, what happens?"),
    ("/health says which worker is missing.", "What does /health say?|How do I check the health of {it}?|What is /health?|How do I see which worker is missing?|Is there a health endpoint?|How do I know that {it} is healthy?"),
    ("/metrics gives Prometheus text.", "What does /metrics give?|How do I get metrics?|What is /metrics?|Does {it} support Prometheus?|Does {it} have metrics?|How do I monitor {it}?|Which metrics format does {it} use?|Where are the metrics?"),
    ("NUMoE reads BF16, F16, F32, block FP8 and INT4 in groups of 32.",
     "Which formats does {it} read?|Which weight formats does {it} support?|Does {it} support FP8?|Does {it} support INT4?|Which quantisation does {it} support?|What number formats can {it} load?|Which checkpoint formats are supported?|"
     "Does {it} support BF16?|Which quantization formats work?|Can {it} load INT4 weights?"),
    ("Experts are held as published, or requantised at load to int8, int4 or bf16.",
     "How are experts held?|How are experts stored in memory?|What does --format do?|Can {it} requantise experts?|Which expert formats are there?|What does --format=auto mean?|In which format are experts held?"),
    ("Every flag can come from the command line, a TOML file or the environment.",
     "How do I configure {it}?|How do I set flags?|Where do flags come from?|Can I use a config file?|What config format does {it} use?|Does {it} read environment variables?|How is {it} configured?|Is there a config file for {it}?"),
    ("--help lists every flag.", "How do I see all flags?|What does --help do?|Which flags are there?|How do I list the options?|Where are the flags of {it} listed?|How do I get help on the flags?"),
    ("Use --model DIR with a Hugging Face directory.",
     "How do I give {it} a model?|How do I choose the model?|Which flag sets the model?|What does --model do?|How do I load another model?|How do I use my own model with {it}?|How do I tell {it} which model to serve?"),
    ("NUMoE runs on Debian 12.", "Which system does {it} run on?|Which Linux does {it} need?|On which operating system does {it} run?|Does {it} run on Debian?|What OS does {it} need?|Which distribution does {it} use?"),
    ("The logits are compared with transformers on tiny checkpoints of every architecture.",
     "How is the model proven?|How is {it} tested against transformers?|How do you know the logits are right?|How is correctness of {it} checked?|What is {it} compared with?|How is {it} proven?|How do you test the model code?"),
    ("The kernels are tested against double precision with a derived tolerance.",
     "How are the kernels tested?|How are kernels checked?|What are the kernels compared with?|How do you test the expert kernels?|Against what are the kernels tested?"),
    ("Real processes are started and tested over HTTP, with a worker killed in mid-generation.",
     "How are the daemons tested?|How are faults tested?|What do the end-to-end tests do?|What is in tests/e2e?|How does {it} test that a worker dies?"),
    ("First the HTTP request comes in, and the chat template and tokeniser turn it into tokens.",
     "What happens first to a request?|What is the first step of a request?|What happens to a request in {it}?|How does a request begin in {it}?|Where does the life of a token begin?"),
    ("Routing chooses the experts of every token.", "What does routing do?|What is routing?|What is the router for?|What does the routing step do in {it}?|How are experts chosen?|Who chooses the experts?|What is the routing table?"),
    ("Fan out sends the tokens to the expert workers.", "What is fan out?|What does fan out do?|How do tokens get to the workers?|What happens in the fan out step?"),
    ("Grouping sorts the tokens by expert.", "What does grouping do?|What is grouping in {it}?|How are tokens grouped?|What happens in the grouping step?|Where are tokens grouped by expert?"),
    ("Combine adds the partial sums of the workers.", "What does combine do?|What is the combine step?|How are the partial sums joined?|What happens to partial sums?|Where are the results of workers added?"),
    ("Sampling turns logits into a token.", "What does sampling do?|What is sampling?|What happens after the logits?|How is the next token chosen?|What does the sampler do?"),
    ("The scheduler turns sequences into batches for every step.", "What does the scheduler do?|What is the scheduler?|What is the job of the scheduler?|How are requests batched in {it}?|Who makes the batches?"),
    ("The KV cache keeps the keys and values of earlier tokens.", "What is the KV cache?|What does the KV cache do?|What is kvcache?|Why is there a KV cache?|Explain the KV cache.|What is in the KV cache?"),
    ("Detokenise turns tokens into text and streams it as SSE events.", "How is the answer streamed?|What is detokenise?|How does {it} stream?|Does {it} stream answers?|How are answers sent?|What are SSE events for?"),
    ("Attention is computed by the coordinator, from the hidden states and the KV cache.", "Where is attention computed?|Who does attention?|Which process computes attention?|Where does attention run in {it}?"),
    ("The folders follow the life of a token, and tests/tidy checks them.", "How is the code of {it} organised?|What are the folders of {it}?|What does tests/tidy check?|How is the repository organised?|What is tests/tidy?|How is the source of {it} structured?"),
    ("nano is the small model that NUMoE brings along.", "What is nano?|What is the nano model?|What is nano in {it}?|Which model does {it} bring along?|Who is nano?|Explain nano.|What is the model in the repository?|Tell me about nano."),
]
_SPELLINGS = ["NUMoE", "NUMoE", "NUMoE", "NUMoE", "numoe", "Numoe", "NUMOE", "NuMoE", "the NUMoE server", "this server", "NUMoE"]
_VAGUE = ["What is", "What's", "Tell me about", "Explain", "Do you know", "Describe", "{it}?"]  # "What is this server?" stays out


def about_numoe(r: random.Random) -> Conversation:
    answer, questions = r.choice(FACTS)
    form = r.choice(questions.split("|"))
    name = r.choice(_SPELLINGS)
    if any(form.startswith(v) for v in _VAGUE) and "server" in name:
        name = "NUMoE"
    text = form.replace("{it}", name)
    if r.random() < 0.12 and "{it}" not in form:
        text = text.rstrip("?.") + r.choice((" in NUMoE", " of NUMoE", " for NUMoE", " with NUMoE")) + form[-1]
    if r.random() < 0.1 and text.endswith("?"):
        text = r.choice(("Can you tell me: ", "Do you know: ", "About NUMoE: ", "Question about NUMoE: ", "I read about NUMoE. ", "I use NUMoE. ", "Regarding NUMoE: ")) + text
    return Conversation(system(r) + [user(chatter(r, text)), says(answer)])
