package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/belay-mq/belay/nacos/server"
)

// post publishes a config as scripts do, with the md5 that is to be replaced or none.
func post(s *server.Server, content, casMD5 string) string {
	form := url.Values{"dataId": {"rabbitmq-toggle.properties"}, "group": {"settle-service"}, "type": {"properties"}, "content": {content}}
	req, err := http.NewRequest(http.MethodPost, "http://"+s.Addr()+"/nacos/v1/cs/configs?"+form.Encode(), nil)
	if err != nil {
		return err.Error()
	}
	req.Header.Set("casMd5", casMD5)
	return answer(http.DefaultClient.Do(req))
}

// read asks for the config, with more parameters if given.
func read(s *server.Server, more string) string {
	return answer(http.Get("http://" + s.Addr() + "/nacos/v1/cs/configs?dataId=rabbitmq-toggle.properties&group=settle-service" + more))
}

func answer(resp *http.Response, err error) string {
	if err != nil {
		return "no answer"
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return "half an answer"
	}
	return fmt.Sprintf("%d %.60s", resp.StatusCode, body)
}

func ExampleStart() {
	ctx := context.Background()
	s, err := server.Start(ctx, server.Config{DumpTick: -1}) // changes are visible at once
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close(ctx)
	fmt.Println(s.Behaviour())
	fmt.Println(post(s, "a=1", ""))
	fmt.Println(read(s, ""))
	fmt.Println(post(s, "a=2", "the md5 of something else"))
	// Output:
	// Nacos 2.5.1
	// 200 true
	// 200 a=1
	// 500 caused: Cas publish fail, server md5 may have changed.;
}

// Reads are old until the next tick of the dump, details are not.
func ExampleConfig_dumpTick() {
	ctx := context.Background()
	s, err := server.Start(ctx, server.Config{DumpTick: time.Hour})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close(ctx)
	fmt.Println(post(s, "a=1", ""))
	fmt.Print(read(s, ""))
	fmt.Println(read(s, "&show=all")[:12])
	// Output:
	// 200 true
	// 404 config data not exist
	// 200 {"id":"1
}

// A publish whose answer is lost has been applied all the same.
func ExampleFaults_CutReplies() {
	ctx := context.Background()
	s, err := server.Start(ctx, server.Config{DumpTick: -1})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close(ctx)
	s.Faults().CutReplies(server.OpPublish, 1)
	fmt.Println(post(s, "a=1", ""))
	fmt.Println(read(s, ""))
	// Output:
	// no answer
	// 200 a=1
}

// What was published survives a crash, on the same ports.
func ExampleServer_Restart() {
	ctx := context.Background()
	s, err := server.Start(ctx, server.Config{Behaviour: server.RNacos})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close(ctx)
	fmt.Println(post(s, "a=1", ""))
	if err := s.Stop(); err != nil {
		fmt.Println(err)
	}
	fmt.Println(read(s, ""))
	if err := s.Restart(ctx); err != nil {
		fmt.Println(err)
	}
	fmt.Println(read(s, ""))
	// Output:
	// 200 true
	// no answer
	// 200 a=1
}

func ExampleAuth() {
	ctx := context.Background()
	s, err := server.Start(ctx, server.Config{Auth: &server.Auth{Users: []server.User{
		{Name: "nacos", Password: "secret", Admin: true},
		{Name: "dashboard", Password: "look", Grants: []server.Grant{{Namespace: "public"}}}, // reads only
	}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close(ctx)
	login := "http://" + s.Addr() + "/nacos/v1/auth/users/login"
	fmt.Println(answer(http.PostForm(login, url.Values{"username": {"dashboard"}, "password": {"guess"}})))
	fmt.Println(answer(http.PostForm(login, url.Values{"username": {"dashboard"}, "password": {"look"}}))[:19])
	fmt.Println(post(s, "a=1", "")[:3])
	// Output:
	// 403 user not found!
	// 200 {"accessToken":
	// 403
}
