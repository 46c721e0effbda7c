package nacos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nacos-group/nacos-sdk-go/v2/common/constant"
	"github.com/nacos-group/nacos-sdk-go/v2/common/logger"
	"github.com/nacos-group/nacos-sdk-go/v2/util"
)

// sdkLogin is the HTTP side of an SDK client, which it uses for logins only.
// The store's own login answers: no second one, no idle connections, and a
// token that was renewed after a refusal reaches the SDK within ten seconds
// (it asks again when the time to live that stands here is over), so a client
// need not be built anew.
type sdkLogin struct{ store *Store }

var errSDKRequest = errors.New("nacos: the SDK asks nothing over HTTP here")

func (l sdkLogin) Post(string, http.Header, uint64, map[string]string) (*http.Response, error) {
	silenceSDK() // this is asked for while a client is made, when its own logger is in place
	token, err := l.store.tokenFor()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(map[string]any{"accessToken": token, "tokenTtl": 5})
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(string(text)))}, nil
}

func (sdkLogin) Get(string, http.Header, uint64, map[string]string) (*http.Response, error) {
	return nil, errSDKRequest
}

func (sdkLogin) Delete(string, http.Header, uint64, map[string]string) (*http.Response, error) {
	return nil, errSDKRequest
}

func (sdkLogin) Put(string, http.Header, uint64, map[string]string) (*http.Response, error) {
	return nil, errSDKRequest
}

func (sdkLogin) RequestOnlyResult(string, string, http.Header, uint64, map[string]string) string {
	return ""
}

func (sdkLogin) Request(string, string, http.Header, uint64, map[string]string) (*http.Response, error) {
	return nil, errSDKRequest
}

// sdkLog takes the place of the SDK's logger, which is one for the process. It
// forwards the bare messages to the logs of all open stores: their arguments
// are bodies, tokens and addresses.
type sdkLog struct {
	mu   sync.Mutex
	logs map[*Store]*slog.Logger
}

var sdkLogs = &sdkLog{logs: map[*Store]*slog.Logger{}}

func silenceSDK() { logger.SetLogger(sdkLogs) }

func (l *sdkLog) join(s *Store) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.logs[s] = s.cfg.log
}

func (l *sdkLog) leave(s *Store) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.logs, s)
}

func (l *sdkLog) tell(format string) {
	l.mu.Lock()
	logs := slices.Collect(maps.Values(l.logs))
	l.mu.Unlock()
	for _, log := range logs {
		log.Debug("SDK", "message", format)
	}
}

func (*sdkLog) Info(...any)                      {}
func (*sdkLog) Debug(...any)                     {}
func (*sdkLog) Infof(string, ...any)             {}
func (*sdkLog) Debugf(string, ...any)            {}
func (l *sdkLog) Warn(...any)                    { l.tell("warning without a format") }
func (l *sdkLog) Error(...any)                   { l.tell("error without a format") }
func (l *sdkLog) Warnf(format string, _ ...any)  { l.tell(format) }
func (l *sdkLog) Errorf(format string, _ ...any) { l.tell(format) }

// Close is asked for by newer versions of the SDK than the one that is required.
func (*sdkLog) Close() error { return nil }

var prepareSDK = sync.OnceFunc(func() {
	silenceSDK()
	util.LocalIP() // fills a global without a lock
})

// tokenFor gives the SDK the store's token.
func (s *Store) tokenFor() (token string, err error) {
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.CallTimeout)
	defer cancel()
	// The caller keeps its label: what it starts later is the client's.
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("login for the SDK: panic: %v", r)
			}
		}()
		unlabel()
		token, err = s.client.auth.token(ctx, "")
	}()
	<-done
	return token, err
}

// sdkWork names the functions of the SDK that must not run when a client ends.
var sdkWork = []string{"config_client.(*ConfigClient).asyncNotifyListenConfig", "config_client.(*ConfigClient).executeConfigListen"}

// sdkSafe tells that clients of this version of the SDK may be closed: from
// v2.3.4 on, which calls itself v2.3.3, it takes a closed one out of its global
// table without a lock, and that ends the process when another client sends a
// request meanwhile. v2.3.2, the required one, calls itself v2.2.7.
const sdkSafe = constant.CLIENT_VERSION == "Nacos-Go-Client:v2.2.7"

// sdkLabel marks the goroutines that a client starts, and those which they start.
const sdkLabel = "belay-nacos-client"

// unlabel keeps what this goroutine starts, connections of the store among it, from
// being taken for a client's.
func unlabel() { pprof.SetGoroutineLabels(context.Background()) }

// sdkStacks tells what the SDK clients' goroutines do. Their stacks are the only
// place where that can be seen.
type sdkStacks struct {
	mu     sync.Mutex
	at     time.Time
	labels map[string]bool
}

var sdkActivity sdkStacks

// of tells whether a client has goroutines, and whether pushes wait in it or a
// request is under way. It looks every few milliseconds at most, for any number
// of callers.
func (s *sdkStacks) of(label string) (alive, busy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.at) >= sdkSettle/2 {
		s.labels = busyLabels()
		s.at = time.Now()
	}
	busy, alive = s.labels[label]
	return alive, busy
}

// busyLabels reads the goroutine profile: paragraphs of one stack each, with a
// line `# labels: {"key":"value"}` where there are labels.
func busyLabels() map[string]bool {
	var text bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&text, 1) // a buffer takes all
	busy := map[string]bool{}
	for stack := range strings.SplitSeq(text.String(), "\n\n") {
		_, rest, ok := strings.Cut(stack, "# labels: ")
		if !ok {
			continue
		}
		line, frames, _ := strings.Cut(rest, "\n")
		var labels map[string]string
		if json.Unmarshal([]byte(line), &labels) != nil || labels[sdkLabel] == "" {
			continue
		}
		works := slices.ContainsFunc(sdkWork, func(w string) bool { return strings.Contains(frames, w) })
		busy[labels[sdkLabel]] = busy[labels[sdkLabel]] || works
	}
	return busy
}
