// One program with what makes a node of a machine: kubelet and kube-proxy, and kube-scheduler, which the node is scheduled by.
//
// It is the module of ../main.go, so that all of them are of one version. The first argument says which.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	commands := map[string]func() *cobra.Command{
		"kubelet":        func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
		"kube-proxy":     proxy.NewProxyCommand,
		"kube-scheduler": func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	}
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "expected kubelet, kube-proxy or kube-scheduler as the first argument")
		os.Exit(2)
	}
	command := commands[os.Args[1]]
	os.Args = os.Args[1:]
	os.Exit(cli.Run(command()))
}
