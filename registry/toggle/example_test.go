package toggle_test

import (
	"errors"
	"fmt"

	"github.com/belay-mq/belay/registry/toggle"
)

func ExampleParse() {
	file := toggle.Parse(toggle.Properties, []byte(`
rabbitmq.toggle.consumers[0].listenerId=SettleConsumer
rabbitmq.toggle.consumers[0].enable=on
rabbitmq.toggle.consumers[0].concurrent-consumers=2
rabbitmq.toggle.consumers[1].listenerId=RefundConsumer
rabbitmq.toggle.consumers[1].enable=ture
`))
	for _, t := range file.InForce() {
		fmt.Println(t.ListenerID, t.Enable != nil && *t.Enable)
	}
	for _, p := range file.Warnings {
		fmt.Println(p)
		fmt.Println(p.Class().Sentence("settle-service"))
	}
	// Output:
	// SettleConsumer true
	// RefundConsumer false
	// line 6: bad-boolean: enable "ture" is no boolean: write true or false
	// settle-service will not start with this file, and applies nothing of it while it runs
}

func ExampleEdit() {
	text := []byte(`# refunds go to the vendor
rabbitmq.toggle.consumers[0].listener-id = RefundConsumer
rabbitmq.toggle.consumers[0].enable      = yes
`)
	after, err := toggle.Edit(toggle.Properties, text, false, toggle.Intent{
		Op: toggle.Set, ListenerID: "RefundConsumer",
		Enable: toggle.To(false), Reason: toggle.To("vendor maintenance"), ResumeAt: toggle.To("2026-01-02T05:00:00Z"),
	})
	fmt.Printf("%s%v\n", after, err)
	for _, c := range toggle.Diff(toggle.Parse(toggle.Properties, text), toggle.Parse(toggle.Properties, after)) {
		fmt.Println(c)
	}
	// Output:
	// # refunds go to the vendor
	// rabbitmq.toggle.consumers[0].listener-id = RefundConsumer
	// rabbitmq.toggle.consumers[0].enable      = false
	// rabbitmq.toggle.consumers[0].reason      = vendor maintenance
	// rabbitmq.toggle.consumers[0].resume-at      = 2026-01-02T05:00:00Z
	// <nil>
	// RefundConsumer: enable true → false
	// RefundConsumer: reason absent → vendor maintenance
	// RefundConsumer: resumeAt absent → 2026-01-02T05:00:00Z
}

func ExampleRefusal() {
	text := []byte("rabbitmq.toggle.consumers[0].listenerId=A\nrabbitmq.toggle.consumers[2].listenerId=B\n")
	off := toggle.Intent{Op: toggle.Set, ListenerID: "A", Enable: toggle.To(false)}
	_, err := toggle.Edit(toggle.Properties, text, false, off)
	var refusal *toggle.Refusal
	if errors.As(err, &refusal) {
		fmt.Println(refusal.Code, refusal.Line, refusal.Forceable)
	}
	_, err = toggle.Edit(toggle.Properties, text, refusal.Forceable, off)
	fmt.Println(err)
	// Output:
	// index-gap 2 true
	// <nil>
}

func ExampleUnified() {
	before := []byte("rabbitmq:\n  toggle:\n    consumers:\n      - {listenerId: A, enable: on} # one\n      - {listenerId: B}\n")
	after, err := toggle.Edit(toggle.YAML, before, false, toggle.Intent{Op: toggle.Set, ListenerID: "A", Enable: toggle.To(false)})
	if err != nil {
		fmt.Println(err)
	}
	fmt.Print(toggle.Unified(before, after, 1))
	// Output:
	// @@ -3,3 +3,3 @@
	//      consumers:
	// -      - {listenerId: A, enable: on} # one
	// +      - {listenerId: A, enable: false} # one
	//        - {listenerId: B}
}
