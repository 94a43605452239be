package codec

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/google/go-cmp/cmp"
)

func TestAllCodecsCarryTheSameValues(t *testing.T) {
	for _, sample := range []struct {
		request  Request
		response Response
	}{
		{SampleRequest, SampleResponse},
		{
			Request{ID: 1 << 63, Block: 7, Method: []byte("eth_call"), Account: make([]byte, 20)},
			Response{ID: 3, Balance: 1<<64 - 1, Nonce: 1 << 40, BlockHash: []byte{31: 0xff}},
		},
	} {
		zapRequest, zapResponse := zapRoundTrip(t, sample.request, sample.response)
		if diff := cmp.Diff(sample.request, zapRequest); diff != "" {
			t.Errorf("zap request: %s", diff)
		}
		if diff := cmp.Diff(sample.response, zapResponse); diff != "" {
			t.Errorf("zap response: %s", diff)
		}
		for _, c := range JSONCodecs() {
			request, response := jsonRoundTrip(t, c, sample.request, sample.response)
			if diff := cmp.Diff(sample.request, request); diff != "" {
				t.Errorf("%s request: %s", c.Name, diff)
			}
			if diff := cmp.Diff(sample.response, response); diff != "" {
				t.Errorf("%s response: %s", c.Name, diff)
			}
		}
	}
}

func zapRoundTrip(t *testing.T, request Request, response Response) (q Request, s Response) {
	t.Helper()
	a, err := AppendRequest(nil, &request)
	if err == nil {
		err = ParseRequest(a, &q)
	}
	if err != nil {
		t.Fatal(err)
	}
	b, err := AppendResponse(nil, &response)
	if err == nil {
		err = ParseResponse(b, &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return q, s
}

func jsonRoundTrip(t *testing.T, c JSONCodec, request Request, response Response) (Request, Response) {
	t.Helper()
	var (
		q RequestJSON
		s ResponseJSON
	)
	for _, way := range []struct{ from, to any }{{request.JSON(), &q}, {response.JSON(), &s}} {
		b, err := c.Marshal(way.from)
		if err == nil {
			err = c.Unmarshal(b, way.to)
		}
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
	}
	request, err := q.Binary()
	if err != nil {
		t.Fatal(err)
	}
	if response, err = s.Binary(); err != nil {
		t.Fatal(err)
	}
	return request, response
}

func TestTheRecordTakes162BytesAgainst233(t *testing.T) {
	a, _ := AppendRequest(nil, &SampleRequest)
	b, _ := AppendResponse(nil, &SampleResponse)
	if n := len(a) + len(b); n != 162 {
		t.Errorf("zap: %d bytes", n)
	}
	for _, c := range JSONCodecs() {
		a, errA := c.Marshal(SampleRequest.JSON())
		b, errB := c.Marshal(SampleResponse.JSON())
		if n := len(a) + len(b); n != 233 || errA != nil || errB != nil {
			t.Errorf("%s: %d bytes, %v, %v", c.Name, n, errA, errB)
		}
	}
}

func TestTheRecordIsThatOfTheVectors(t *testing.T) {
	raw, err := os.ReadFile("../../zapcodec/testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Vectors []struct{ Name, Hex string } }
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	a, _ := AppendRequest(nil, &SampleRequest)
	b, _ := AppendResponse(nil, &SampleResponse)
	want := map[string]string{"getBalance-request": hex.EncodeToString(a), "getBalance-response": hex.EncodeToString(b)}
	for _, v := range file.Vectors {
		if h, ours := want[v.Name]; ours {
			delete(want, v.Name)
			if h != v.Hex {
				t.Errorf("%s: %s, want %s", v.Name, h, v.Hex)
			}
		}
	}
	if len(want) != 0 {
		t.Errorf("not among the vectors: %v", want)
	}
}

func TestZAPAllocatesNothing(t *testing.T) {
	buf := make([]byte, 0, 256)
	a, _ := AppendRequest(nil, &SampleRequest)
	var q Request
	if n := testing.AllocsPerRun(100, func() { _, _ = AppendRequest(buf, &SampleRequest) }); n != 0 {
		t.Errorf("encode: %v allocations", n)
	}
	if n := testing.AllocsPerRun(100, func() { _ = ParseRequest(a, &q) }); n != 0 {
		t.Errorf("decode: %v allocations", n)
	}
}

// row is what one benchmark measured.
type row struct {
	what, codec string
	ns          float64
}

// BenchmarkRecord measures one message per operation: decode and encode are
// the request, decode-response and encode-response the answer. At its end it
// prints each against ZAP, losses like wins.
func BenchmarkRecord(b *testing.B) {
	var rows []row
	for _, a := range Arms() {
		b.Run(a.What+"/"+a.Codec, func(b *testing.B) {
			b.ReportAllocs()
			if err := a.Loop(b.N); err != nil {
				b.Fatal(err)
			}
			rows = append(rows, row{a.What, a.Codec, float64(b.Elapsed().Nanoseconds()) / float64(b.N)})
		})
	}
	printRatios(rows)
}

// printRatios prints the last round of each benchmark beside ZAP's.
func printRatios(rows []row) {
	last := map[string]float64{}
	var order []row
	for _, r := range rows {
		key := r.what + "/" + r.codec
		if _, seen := last[key]; !seen {
			order = append(order, r)
		}
		last[key] = r.ns
	}
	slices.SortStableFunc(order, func(a, b row) int { return strings.Compare(a.what, b.what) })
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "record\tcodec\tns\ttimes zap\t")
	for _, r := range order {
		if zap := last[r.what+"/zap"]; zap > 0 {
			fmt.Fprintf(w, "%s\t%s\t%.1f\t%.1f\t\n", r.what, r.codec, last[r.what+"/"+r.codec], last[r.what+"/"+r.codec]/zap)
		}
	}
	_ = w.Flush()
}
