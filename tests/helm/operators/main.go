// Reads a YAML list of objects on stdin as the types of the operators that own their kinds, strictly: a field that the type
// does not have, or a value of another sort, is an error that names it. A kind that is none of theirs is one as well.
package main

import (
	"fmt"
	"io"
	"os"

	certmanager "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"
)

type list struct {
	Items []map[string]any `json:"items"`
}

func typeOf(kind any) any {
	switch kind {
	case "ServiceMonitor":
		return &monitoring.ServiceMonitor{}
	case "PodMonitor":
		return &monitoring.PodMonitor{}
	case "PrometheusRule":
		return &monitoring.PrometheusRule{}
	case "Certificate":
		return &certmanager.Certificate{}
	}
	return nil
}

func check(object map[string]any) error {
	into := typeOf(object["kind"])
	if into == nil {
		return fmt.Errorf("no operator here owns it")
	}
	text, err := yaml.Marshal(object)
	if err != nil {
		return err
	}
	return yaml.UnmarshalStrict(text, into)
}

func main() {
	input, err := io.ReadAll(os.Stdin)
	var objects list
	if err == nil {
		err = yaml.Unmarshal(input, &objects)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	failed := 0
	for _, object := range objects.Items {
		if err := check(object); err != nil {
			failed++
			fmt.Fprintf(os.Stderr, "%v: %v\n", object["kind"], err)
		}
	}
	fmt.Printf("%d objects of operators, %d wrong\n", len(objects.Items), failed)
	if failed > 0 {
		os.Exit(1)
	}
}
