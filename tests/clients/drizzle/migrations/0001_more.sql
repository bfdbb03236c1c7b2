ALTER TYPE "public"."role" ADD VALUE 'editor';--> statement-breakpoint
ALTER TABLE "posts" 
	ADD COLUMN "uid" uuid DEFAULT gen_random_uuid() NOT NULL;--> statement-breakpoint
ALTER TABLE "users" ALTER COLUMN "name" SET DATA TYPE text;
