package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/hanzoai/pqgw/zapcodec"
	"github.com/spf13/cobra"
)

func init() { zapCommands = append(zapCommands, newZapDecode) }

// zapOptions are the flags of `zap decode` and `zap encode`.
type zapOptions struct {
	kind     string
	hex      bool
	prefixed bool
	limit    int
}

func (o *zapOptions) register(cmd *cobra.Command, hexHelp, prefixedHelp string) {
	cmd.Flags().StringVar(&o.kind, "kind", kindAuto, "kind of frame: "+strings.Join(zapKinds, ", "))
	cmd.Flags().BoolVar(&o.hex, "hex", false, hexHelp)
	cmd.Flags().BoolVar(&o.prefixed, "length-prefixed", false, prefixedHelp)
}

func newZapDecode() *cobra.Command {
	var o zapOptions
	cmd := &cobra.Command{
		Use:   "decode [FILE]",
		Short: "Print a ZAP frame as JSON",
		Long: `Print a ZAP frame, from FILE or standard input, as one JSON object.

With --length-prefixed the input is a stream of frames, as it goes over TCP, and
each becomes one line. Frames of HTTP have their length big-endian; those of RPC
(--kind rpc-request or rpc-response, or when the stream looks like it) have it
little-endian, with a direction after it.

A frame that breaks the format is refused: exit code 1, and one line on standard
error that says what is wrong at which byte.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkKind(o.kind); err != nil {
				return err
			}
			in, err := openZapInput(cmd, args)
			if err != nil {
				return err
			}
			defer in.Close()
			return zapDecode(&o, in, cmd.OutOrStdout())
		},
	}
	o.register(cmd, "the input is hex digits; white space is ignored", "the input is a stream of frames, each after its length")
	cmd.Flags().IntVar(&o.limit, "limit", zapcodec.DefaultLimit, "most `bytes` of one frame")
	return cmd
}

// openZapInput opens the file named by the only argument, or standard input.
func openZapInput(cmd *cobra.Command, args []string) (io.ReadCloser, error) {
	if len(args) == 0 || args[0] == "-" {
		return io.NopCloser(cmd.InOrStdin()), nil
	}
	f, err := os.Open(args[0])
	if err != nil {
		return nil, withCode(exitFailed, err)
	}
	return f, nil
}

func zapDecode(o *zapOptions, in io.Reader, out io.Writer) error {
	if o.hex {
		in = hex.NewDecoder(&blankSkipper{in})
	}
	w := bufio.NewWriter(out)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	var err error
	if o.prefixed {
		err = decodeStream(o, bufio.NewReader(in), enc)
	} else {
		err = decodeOne(o, in, enc)
	}
	return errors.Join(err, w.Flush())
}

// decodeOne reads the whole input as one frame.
func decodeOne(o *zapOptions, in io.Reader, enc *json.Encoder) error {
	frame, err := io.ReadAll(io.LimitReader(in, int64(o.limit)+1))
	if err != nil {
		return fmt.Errorf("read the frame: %w", err)
	}
	if len(frame) > o.limit {
		return fmt.Errorf("the frame is over the limit of %d bytes; raise it by --limit", o.limit)
	}
	v, err := describeFrame(o.kind, frame)
	if err != nil {
		return err
	}
	return enc.Encode(v)
}

// decodeStream reads frames until the input ends.
func decodeStream(o *zapOptions, in *bufio.Reader, enc *json.Encoder) error {
	framing := streamFraming(o.kind, in)
	var buf []byte
	for n := 1; ; n++ {
		frame, err := framing.Read(in, buf, o.limit)
		if errors.Is(err, io.EOF) {
			return nil
		}
		var v any
		if err == nil {
			v, err = describeFramed(framing, o.kind, frame)
		}
		if err != nil {
			return fmt.Errorf("frame %d: %w", n, err)
		}
		if err := enc.Encode(v); err != nil {
			return err
		}
		buf = frame.Bytes
	}
}

// streamFraming is the framing that the kind asks for, or that the first
// bytes look like: a message right behind the length is HTTP's.
func streamFraming(kind string, in *bufio.Reader) zapcodec.Framing {
	switch kind {
	case kindRPCRequest, kindRPCResponse:
		return zapcodec.FramingRPC
	case kindAuto:
		if b, err := in.Peek(9); err == nil && string(b[4:8]) != "ZAP\x00" && b[4] >= zapcodec.DirectionRequest && b[4] <= zapcodec.DirectionStreamEnd {
			return zapcodec.FramingRPC
		}
	}
	return zapcodec.FramingHTTP
}

// blankSkipper leaves out white space.
type blankSkipper struct{ r io.Reader }

func (s *blankSkipper) Read(p []byte) (int, error) {
	for {
		n, err := s.r.Read(p)
		kept := 0
		for _, c := range p[:n] {
			if c != ' ' && c != '\n' && c != '\r' && c != '\t' {
				p[kept] = c
				kept++
			}
		}
		if kept > 0 || err != nil || n == 0 {
			return kept, err
		}
	}
}
