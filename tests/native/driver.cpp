// A small coverage-guided driver for compilers without libFuzzer.
//
//     fuzz [--seconds N] [--seed S] [--corpus FOLDER] [--state FILE] [--patience SECONDS]     mutates until the time is up
//     fuzz FILE... [--patience SECONDS]                                                       runs each file once
//
// GCC calls `__sanitizer_cov_trace_pc` in every block of the code under test; pairs of blocks, with how often they ran
// in powers of two, are what an input covers, as in AFL (Zalewski 2014). An input is also kept where a call runs more blocks for each
// counted step than those of all others that cover some pair of blocks, as in PerfFuzz (Lemieux et al. 2018): so mutation climbs to
// what is counted too low. The input that runs is always in the state file, which a crash leaves behind.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" void __sanitizer_print_stack_trace() __attribute__((weak));  // there when a sanitizer is

namespace {

using Bytes = std::vector<uint8_t>;

/// An input that covered something, or had a dear call, and what it cost.
struct Kept {
    Bytes input;
    uint64_t blocks;
};

constexpr size_t kPairs = 1 << 16;
constexpr size_t kLongest = 1 << 13;
constexpr double kDear = 100;  // blocks of code for a step of work, see counted.hpp: a quarter of what the law allows

int patience = 60;  // processor seconds that one input may take
uint8_t hits[kPairs];
uint8_t covered[kPairs];  // bit i: the pair ran about 2^i times in some input
uintptr_t last_block = 0;
uint64_t blocks = 0;  // that the input ran
double price = 0;     // the most blocks for each step that a call of it ran
double prices[kPairs];  // the highest of the inputs that cover a pair

}  // namespace

namespace fuzz {
uint64_t blocks_run() { return blocks; }
void note_price(double blocks_of_step) { price = std::max(price, blocks_of_step); }
}  // namespace fuzz

extern "C" void __sanitizer_cov_trace_pc() {
    ++blocks;
    const auto block = reinterpret_cast<uintptr_t>(__builtin_return_address(0)) * 0x9e3779b97f4a7c15ULL >> 48;
    uint8_t& count = hits[block ^ last_block];
    if (count != UINT8_MAX) ++count;
    last_block = block >> 1;
}

namespace {

/// Whether the last run covered something new.
bool harvest() {
    bool fresh = false;
    for (size_t i = 0; i < kPairs; ++i) {
        if (!hits[i]) continue;
        const uint8_t bit = 1 << (std::bit_width(hits[i]) - 1);
        fresh |= !(covered[i] & bit);
        covered[i] |= bit;
    }
    return fresh;
}

/// Whether a call of the last run was dearer than those of all other inputs that cover some pair.
bool is_dearer() {
    if (price < kDear) return false;
    bool dearer = false;
    for (size_t i = 0; i < kPairs; ++i) {
        if (!hits[i] || price < 1.1 * prices[i]) continue;
        prices[i] = price;
        dearer = true;
    }
    return dearer;
}

/// The file that always holds the input that runs.
class Notebook {
public:
    explicit Notebook(const std::string& path) : file_(open(path.c_str(), O_RDWR | O_CREAT, 0644)) {
        if (file_ < 0 || ftruncate(file_, kLongest) != 0) std::perror(path.c_str()), std::exit(2);
        page_ = static_cast<uint8_t*>(mmap(nullptr, kLongest, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0));
        if (page_ == MAP_FAILED) std::perror(path.c_str()), std::exit(2);
    }
    void note(const Bytes& input) {  // zeros at the end change nothing: missing bytes read as zero
        std::memset(page_, 0, kLongest);
        std::copy(input.begin(), input.end(), page_);
    }

private:
    int file_;
    uint8_t* page_;
};

void too_long(int) {
    constexpr char message[] = "fuzz: this input takes too long\n";
    [[maybe_unused]] const auto written = write(2, message, sizeof message - 1);
    if (__sanitizer_print_stack_trace) __sanitizer_print_stack_trace();
    std::abort();
}

void allow(int seconds) {
    const itimerval limit{{0, 0}, {seconds, 0}};
    setitimer(ITIMER_PROF, &limit, nullptr);
}

bool run(const Bytes& input) {
    std::memset(hits, 0, sizeof hits);
    last_block = blocks = 0, price = 0;
    allow(patience);
    LLVMFuzzerTestOneInput(input.data(), input.size());
    allow(0);
    return harvest();
}

Bytes mutate(Bytes input, const std::vector<Kept>& corpus, std::mt19937& random) {
    const auto below = [&](size_t count) { return count ? random() % count : 0; };
    for (size_t changes = 1 + below(6); changes-- > 0;) {
        const size_t at = below(input.size() + 1);
        const auto here = input.begin() + static_cast<ptrdiff_t>(at);
        switch (below(6)) {
            case 0:
                if (at < input.size()) input[at] ^= static_cast<uint8_t>(1 << below(8));
                break;
            case 1:
                if (at < input.size()) input[at] = static_cast<uint8_t>(random());
                break;
            case 2: input.insert(here, static_cast<uint8_t>(random())); break;
            case 3: input.erase(here, here + static_cast<ptrdiff_t>(std::min(input.size() - at, 1 + below(8)))); break;
            case 4: {  // another input from some place on
                const Bytes& other = corpus[below(corpus.size())].input;
                input.resize(at);
                input.insert(input.end(), other.begin() + static_cast<ptrdiff_t>(std::min(other.size(), below(other.size() + 1))), other.end());
                break;
            }
            default:
                for (size_t count = 1 + below(32); count-- > 0;) input.push_back(static_cast<uint8_t>(random()));
        }
    }
    if (input.size() > kLongest) input.resize(kLongest);
    return input;
}

Bytes read(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) std::fprintf(stderr, "fuzz: cannot read %s\n", path.c_str()), std::exit(2);
    return Bytes(std::istreambuf_iterator<char>(file), {});
}

}  // namespace

int main(int count, char** arguments) {
    double seconds = 60;
    uint32_t seed = 1;
    std::string corpus_folder, state = "fuzz-input";
    std::vector<std::string> files;
    for (int i = 1; i < count; ++i) {
        const std::string name = arguments[i];
        if (name.starts_with("--") && i + 1 == count) return std::fprintf(stderr, "fuzz: %s needs a value\n", name.c_str()), 2;
        if (name == "--seconds") seconds = std::atof(arguments[++i]);
        else if (name == "--seed") seed = static_cast<uint32_t>(std::atoll(arguments[++i]));
        else if (name == "--patience") patience = std::atoi(arguments[++i]);
        else if (name == "--corpus") corpus_folder = arguments[++i];
        else if (name == "--state") state = arguments[++i];
        else files.push_back(name);
    }
    std::signal(SIGPROF, too_long);
    if (!files.empty()) {
        for (const std::string& file : files) run(read(file));
        std::printf("%zu inputs ran\n", files.size());
        return 0;
    }
    std::vector<Kept> corpus{{}};
    if (!corpus_folder.empty()) {
        std::filesystem::create_directories(corpus_folder);
        for (const auto& entry : std::filesystem::directory_iterator(corpus_folder)) corpus.push_back({read(entry.path()), 0});
    }
    Notebook notebook(state);
    std::vector<size_t> dear;  // places in the corpus
    for (size_t at = 0; at < corpus.size(); ++at) {
        auto& [input, cost] = corpus[at];
        if (input.size() > kLongest) input.resize(kLongest);
        notebook.note(input);
        run(input);
        cost = blocks;
        if (is_dearer()) dear.push_back(at);
    }
    std::mt19937 random(seed);
    const auto begun = std::chrono::steady_clock::now();
    const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count(); };
    size_t runs = 0;
    const auto report = [&] {
        size_t pairs = 0;
        for (const uint8_t bits : covered) pairs += bits != 0;
        const double dearest = *std::max_element(std::begin(prices), std::end(prices));
        std::printf("%.0f s: %zu inputs ran, %zu kept, %zu pairs of blocks covered, at most %.0f blocks a step\n", elapsed(), runs, corpus.size(),
                    pairs, dearest);
        std::fflush(stdout);
    };
    for (double next_report = 30; elapsed() < seconds;) {
        // Every other time of the latest: they cover what was not understood yet. Of three the one that costs least: a few inputs
        // would take most of the time, and what they cover is covered by smaller ones too. Every fourth time one with a dear call.
        const bool climbs = !dear.empty() && random() % 4 == 0;
        const size_t among = random() % 2 ? std::min<size_t>(corpus.size(), 64) : corpus.size();
        const auto draw = [&] { return climbs ? dear[random() % dear.size()] : corpus.size() - 1 - random() % among; };
        const auto cheaper = [&](size_t one, size_t other) { return corpus[one].blocks < corpus[other].blocks ? one : other; };
        Bytes input = mutate(corpus[cheaper(draw(), cheaper(draw(), draw()))].input, corpus, random);
        notebook.note(input);
        ++runs;
        const bool covers = run(input), dearer = is_dearer();
        if (dearer) dear.push_back(corpus.size());
        if (covers || dearer) {
            if (!corpus_folder.empty()) {
                std::ofstream(corpus_folder + "/" + std::to_string(seed) + "-" + std::to_string(runs), std::ios::binary)
                    .write(reinterpret_cast<const char*>(input.data()), static_cast<std::streamsize>(input.size()));
            }
            corpus.push_back({std::move(input), blocks});
        }
        if (elapsed() > next_report) report(), next_report += 30;
    }
    report();
    return 0;
}
