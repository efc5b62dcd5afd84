// MinIO on one directory, with one bucket: `minio DIRECTORY ADDRESS BUCKET`. Says on a line of its
// own when it is ready, and ends when its input does. Its user is in the environment, as for MinIO:
// MINIO_ROOT_USER, MINIO_ROOT_PASSWORD.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	server "github.com/minio/minio/cmd"
)

func main() {
	if len(os.Args) != 4 {
		log.Fatal("expected: minio DIRECTORY ADDRESS BUCKET")
	}
	directory, address, bucket := os.Args[1], os.Args[2], os.Args[3]
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	go tell(address, bucket)
	// Certificates are looked for where there are none.
	certificates := filepath.Join(directory, "certificates")
	objects := filepath.Join(directory, "objects")
	server.Main([]string{"minio", "server", "--quiet", "--certs-dir", certificates, "--address", address, objects})
}

// Makes the bucket as soon as the server listens, if it is not there.
func tell(address, bucket string) {
	user := credentials.NewStaticV4(os.Getenv("MINIO_ROOT_USER"), os.Getenv("MINIO_ROOT_PASSWORD"), "")
	client, err := minio.New(address, &minio.Options{Creds: user, Region: "us-east-1", MaxRetries: 1})
	if err != nil {
		log.Fatal(err)
	}
	for {
		found, err := client.BucketExists(context.Background(), bucket)
		if err == nil && !found {
			err = client.MakeBucket(context.Background(), bucket, minio.MakeBucketOptions{Region: "us-east-1"})
		}
		if err == nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	fmt.Printf("\nlistens on http://%s\n", address)
}
