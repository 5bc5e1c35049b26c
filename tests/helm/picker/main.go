// The endpoint picker of the Gateway API Inference Extension, and the gateway that calls it. They are one program, so that both have
// the same version of Envoy's protocol. The first argument says which of them runs.
//
// gateway LISTEN PICKER does what Envoy does in a cluster: it is an HTTP proxy that shows each request to the picker by ext_proc (full
// duplex, as the inference extension's documents require), and sends it to the address that the picker names. The answer has that
// address in the header x-gateway-destination-endpoint.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/gateway-api-inference-extension/cmd/epp/runner"
)

const destination = "x-gateway-destination-endpoint"

type gateway struct {
	picker extproc.ExternalProcessorClient
}

// pseudo are the headers of HTTP/2 that Envoy shows to a processor first.
func headerMap(headers http.Header, pseudo ...[2]string) *core.HeaderMap {
	var out core.HeaderMap
	for _, pair := range pseudo {
		out.Headers = append(out.Headers, &core.HeaderValue{Key: pair[0], RawValue: []byte(pair[1])})
	}
	for name, values := range headers {
		for _, value := range values {
			out.Headers = append(out.Headers, &core.HeaderValue{Key: string(bytes.ToLower([]byte(name))), RawValue: []byte(value)})
		}
	}
	return &out
}

// choice is the picker's reply to a request: an address and a body, or an answer that the picker gives itself.
type choice struct {
	address string
	body    []byte
	refusal *extproc.ImmediateResponse
}

func (g gateway) choose(stream extproc.ExternalProcessor_ProcessClient, request *http.Request, body []byte) (choice, error) {
	headers := headerMap(request.Header, [2]string{":method", request.Method}, [2]string{":path", request.URL.Path})
	for _, message := range []*extproc.ProcessingRequest{
		{Request: &extproc.ProcessingRequest_RequestHeaders{RequestHeaders: &extproc.HttpHeaders{Headers: headers}}},
		{Request: &extproc.ProcessingRequest_RequestBody{RequestBody: &extproc.HttpBody{Body: body, EndOfStream: true}}},
	} {
		if err := stream.Send(message); err != nil {
			return choice{}, err
		}
	}
	var out choice
	for {
		reply, err := stream.Recv()
		if err != nil {
			return out, err
		}
		switch of := reply.Response.(type) {
		case *extproc.ProcessingResponse_ImmediateResponse:
			out.refusal = of.ImmediateResponse
			return out, nil
		case *extproc.ProcessingResponse_RequestHeaders:
			for _, header := range of.RequestHeaders.GetResponse().GetHeaderMutation().GetSetHeaders() {
				if header.GetHeader().GetKey() == destination {
					out.address = string(header.GetHeader().GetRawValue())
				}
			}
		case *extproc.ProcessingResponse_RequestBody:
			part := of.RequestBody.GetResponse().GetBodyMutation().GetStreamedResponse()
			out.body = append(out.body, part.GetBody()...)
			if part.GetEndOfStream() {
				return out, nil
			}
		}
	}
}

// pass sends the answer to the client as it arrives, and shows it to the picker, which counts how much each address still has to do.
func pass(w http.ResponseWriter, answer *http.Response, stream extproc.ExternalProcessor_ProcessClient) error {
	headers := headerMap(answer.Header, [2]string{":status", fmt.Sprint(answer.StatusCode)})
	if err := stream.Send(&extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_ResponseHeaders{
		ResponseHeaders: &extproc.HttpHeaders{Headers: headers}}}); err != nil {
		return err
	}
	buffer := make([]byte, 64<<10)
	for {
		n, err := answer.Body.Read(buffer)
		if _, failed := w.Write(buffer[:n]); failed != nil {
			return failed
		}
		w.(http.Flusher).Flush()
		if sent := stream.Send(&extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_ResponseBody{
			ResponseBody: &extproc.HttpBody{Body: bytes.Clone(buffer[:n]), EndOfStream: err == io.EOF}}}); sent != nil {
			return sent
		}
		if err == io.EOF {
			break
		} else if err != nil {
			return err
		}
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	for {
		if _, err := stream.Recv(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func (g gateway) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	ctx, cancel := context.WithCancel(request.Context())
	defer cancel()
	body, err := io.ReadAll(request.Body)
	fail := func(what string, err error) { http.Error(w, what+": "+err.Error(), http.StatusBadGateway) }
	if err != nil {
		fail("the client's body", err)
		return
	}
	stream, err := g.picker.Process(ctx)
	if err != nil {
		fail("the picker", err)
		return
	}
	chosen, err := g.choose(stream, request, body)
	if err != nil {
		fail("the picker", err)
		return
	}
	if chosen.refusal != nil {
		w.WriteHeader(int(chosen.refusal.GetStatus().GetCode()))
		w.Write(chosen.refusal.GetBody())
		return
	}
	upstream, err := http.NewRequestWithContext(ctx, request.Method, "http://"+chosen.address+request.URL.Path, bytes.NewReader(chosen.body))
	if err != nil {
		fail("the picker's address "+chosen.address, err)
		return
	}
	upstream.Header = request.Header.Clone()
	answer, err := http.DefaultClient.Do(upstream)
	if err != nil {
		fail("the model server", err)
		return
	}
	defer answer.Body.Close()
	for name, values := range answer.Header {
		w.Header()[name] = values
	}
	w.Header().Set(destination, chosen.address)
	w.WriteHeader(answer.StatusCode)
	if err := pass(w, answer, stream); err != nil {
		fmt.Fprintln(os.Stderr, "an answer broke off:", err)
	}
}

func serve(listen, picker string) error {
	connection, err := grpc.NewClient(picker, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})))
	if err != nil {
		return err
	}
	return http.ListenAndServe(listen, gateway{extproc.NewExternalProcessorClient(connection)})
}

func main() {
	var err error
	switch {
	case len(os.Args) == 4 && os.Args[1] == "gateway":
		err = serve(os.Args[2], os.Args[3])
	case len(os.Args) > 1 && os.Args[1] == "picker":
		os.Args = os.Args[1:]
		err = runner.NewRunner().Run(ctrl.SetupSignalHandler())
	default:
		err = fmt.Errorf("expected 'picker' and its flags, or 'gateway LISTEN PICKER'")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}
