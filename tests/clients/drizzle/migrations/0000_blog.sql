CREATE TYPE "public"."role" AS ENUM('reader', 'writer');--> statement-breakpoint
CREATE TABLE "users" (
	"id" serial PRIMARY KEY NOT NULL,
	"name" varchar(40) NOT NULL,
	"role" "role" DEFAULT 'reader' NOT NULL,
	"created" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "users_name_unique" UNIQUE("name")
);
--> statement-breakpoint
CREATE TABLE "posts" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (
		sequence name "posts_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807
		START WITH 1 CACHE 1),
	"author" integer NOT NULL,
	"title" text NOT NULL,
	"price" numeric(10, 2),
	"tags" text[] DEFAULT '{}'::text[] NOT NULL,
	"data" jsonb,
	CONSTRAINT "title_not_empty" CHECK ("posts"."title" <> '')
);
--> statement-breakpoint
ALTER TABLE "posts" ADD CONSTRAINT "posts_author_users_id_fk"
	FOREIGN KEY ("author") REFERENCES "public"."users"("id")
	ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "posts_author" ON "posts" USING btree ("author","title");
