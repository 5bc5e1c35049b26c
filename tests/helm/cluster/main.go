// One program with everything that a cluster without nodes needs: kube-apiserver, kube-controller-manager and kubectl.
//
// Kubernetes publishes no module that `go install` accepts (its go.mod has replace lines), so this module names the
// same versions and calls their commands. The first argument names the command.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

func main() {
	commands := map[string]func() *cobra.Command{
		"kube-apiserver":          apiserver.NewAPIServerCommand,
		"kube-controller-manager": controllers.NewControllerManagerCommand,
		"kubectl":                 func() *cobra.Command { return cmd.NewDefaultKubectlCommand() },
	}
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "expected kube-apiserver, kube-controller-manager or kubectl as the first argument")
		os.Exit(2)
	}
	command := commands[os.Args[1]]
	os.Args = os.Args[1:]
	os.Exit(cli.Run(command()))
}
