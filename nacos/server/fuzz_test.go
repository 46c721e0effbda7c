package server

import (
	"strings"
	"testing"
	"unicode/utf8"

	pb "github.com/nacos-group/nacos-sdk-go/v2/api/grpc"
	"google.golang.org/protobuf/types/known/anypb"
)

func FuzzParseListening(f *testing.F) {
	for _, field := range []string{"", "a\x02b\x02c\x01", "a\x02b\x02\x02ns\x01", "a%02b%02c%01", "garbage", "a\x02b\x01", "%zz", "+\x02+\x02\x01", "\x01\x01"} {
		f.Add(field)
	}
	f.Fuzz(func(t *testing.T, field string) {
		list, err := parseListening(field)
		if (err == nil) != (len(list) > 0) || len(list) > maxPolled {
			t.Fatalf("%d configs, error %v", len(list), err)
		}
		for _, p := range list {
			if strings.ContainsAny(p.key.dataID+p.key.group+p.key.tenant+p.md5, wordSeparator+lineSeparator) {
				t.Errorf("a separator got into %+v", p)
			}
		}
		// What is answered can be asked again and names the same configs.
		text := changedText(list, false)
		if strings.ContainsAny(strings.TrimSuffix(text, "\n"), "\n\x01\x02 ") {
			t.Errorf("the answer is not encoded: %q", text)
		}
	})
}

func FuzzDecodeRequest(f *testing.F) {
	f.Add("ConfigPublishRequest", []byte(`{"dataId":"a","group":"g","content":"x","casMd5":null,"additionMap":{"type":null,"tag":"t"}}`))
	f.Add("ConfigBatchListenRequest", []byte(`{"listen":false,"configListenContexts":[{"dataId":"a","group":"g","md5":"","tenant":null}]}`))
	f.Add("ConnectionSetupRequest", []byte(`{"clientVersion":"v","labels":{"AppName":"x"},"clientAbilities":{}}`))
	f.Add("", []byte(`[]`))
	f.Add("X", []byte(`{"headers":5,"labels":"no map"}`))
	f.Fuzz(func(t *testing.T, kind string, body []byte) {
		req, err := decodeRequest(&pb.Payload{Metadata: &pb.Metadata{Type: kind}, Body: &anypb.Any{Value: body}})
		if err != nil {
			return
		}
		if req.kind != kind || kind == "" {
			t.Errorf("kind %q, want %q", req.kind, kind)
		}
		for _, text := range []string{req.DataID, req.Content, req.AdditionMap["type"]} {
			if !utf8.ValidString(text) {
				t.Errorf("not UTF-8: %q", text)
			}
		}
		if k := req.key(); k.group == "" || k.tenant == publicNamespace {
			t.Errorf("%+v", k)
		}
	})
}
