// GORM: its migrator, associations and queries.
package main

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
)

type user struct {
	ID        uint   `gorm:"primaryKey"`
	Name      string `gorm:"size:40;not null;uniqueIndex"`
	Age       int    `gorm:"default:18;check:age > 0"`
	CreatedAt time.Time
	DeletedAt gorm.DeletedAt `gorm:"index"`
	Posts     []post         `gorm:"constraint:OnDelete:CASCADE"`
	Roles     []role         `gorm:"many2many:user_roles"`
	Profile   profile
}

type profile struct {
	ID     uint
	UserID uint `gorm:"uniqueIndex"`
	Bio    *string
}

type post struct {
	ID     uuid.UUID `gorm:"type:uuid;default:gen_random_uuid()"`
	UserID uint      `gorm:"index:post_user_title,priority:1"`
	Title  string    `gorm:"index:post_user_title,priority:2,sort:desc;comment:the title"`
	Price  float64   `gorm:"type:numeric(10,2)"`
	Data   string    `gorm:"type:jsonb;default:'{}'"`
}

type role struct {
	ID   uint
	Name string
}

// with runs a check in a database of its own, since all checks have the same tables.
func with(name string, action func(db *gorm.DB)) {
	check(name, func(ctx context.Context) {
		db := must(gorm.Open(postgres.Open(fresh(ctx)), &gorm.Config{
			Logger: logger.Discard, TranslateError: false,
		}))
		defer func() {
			if pool, err := db.DB(); err == nil {
				pool.Close()
			}
		}()
		action(db.WithContext(ctx))
	})
}

func migrated(db *gorm.DB) {
	try(db.AutoMigrate(&user{}, &profile{}, &post{}, &role{}))
}

func filled(db *gorm.DB) {
	migrated(db)
	bio := "b"
	try(db.Create(&user{Name: "ann", Age: 30, Posts: []post{{Title: "one", Price: 1.5},
		{Title: "two", Price: 2}},
		Roles: []role{{Name: "admin"}}, Profile: profile{Bio: &bio}}).Error)
	try(db.Create(&user{Name: "bob", Posts: []post{{Title: "three"}}}).Error)
}

func main() {
	with("connects", func(db *gorm.DB) {
		var one int
		try(db.Raw("SELECT 1").Scan(&one).Error)
		equal(one, 1)
	})
	with("creates tables from structures", migrated)
	with("migrates twice", func(db *gorm.DB) {
		migrated(db)
		migrated(db)
	})
	with("adds columns to tables", func(db *gorm.DB) {
		try(db.Exec("CREATE TABLE roles (id bigserial PRIMARY KEY)").Error)
		try(db.AutoMigrate(&role{}))
		equal(db.Migrator().HasColumn(&role{}, "name"), true)
	})
	with("changes tables", func(db *gorm.DB) {
		migrated(db)
		m := db.Migrator()
		equal([]bool{m.HasTable("users"), m.HasIndex(&post{}, "post_user_title"),
			m.HasConstraint(&user{}, "chk_users_age")}, []bool{true, true, true})
		try(m.RenameColumn(&role{}, "name", "title"))
		try(m.DropColumn(&role{}, "title"))
		try(m.DropIndex(&post{}, "post_user_title"))
		try(m.CreateIndex(&post{}, "post_user_title"))
		try(m.DropConstraint(&user{}, "chk_users_age"))
		try(m.CreateConstraint(&user{}, "chk_users_age"))
		try(m.AlterColumn(&user{}, "Name"))
		try(m.RenameTable("roles", "parts"))
		try(m.DropTable("user_roles", "parts"))
	})
	with("describes columns", func(db *gorm.DB) {
		migrated(db)
		found := map[string]string{}
		for _, column := range must(db.Migrator().ColumnTypes(&post{})) {
			found[column.Name()] = column.DatabaseTypeName()
		}
		equal(found, map[string]string{"id": "uuid", "user_id": "int8", "title": "text",
			"price": "numeric", "data": "jsonb"})
	})
	with("describes indexes", func(db *gorm.DB) {
		migrated(db)
		names := map[string]int{}
		for _, index := range must(db.Migrator().GetIndexes(&post{})) {
			names[index.Name()] = len(index.Columns())
		}
		equal(names, map[string]int{"post_user_title": 2})
	})
	with("lists tables", func(db *gorm.DB) {
		migrated(db)
		equal(len(must(db.Migrator().GetTables())), 5)
		equal(db.Migrator().CurrentDatabase() != "", true)
	})
	with("views", func(db *gorm.DB) {
		filled(db)
		query := db.Model(&user{}).Select("name").Where("age > 20")
		try(db.Migrator().CreateView("older", gorm.ViewOption{Query: query, Replace: true}))
		var names []string
		try(db.Table("older").Pluck("name", &names).Error)
		equal(names, []string{"ann"})
		try(db.Migrator().DropView("older"))
	})
	with("creates and finds", func(db *gorm.DB) {
		filled(db)
		var u user
		try(db.Preload("Posts", func(db *gorm.DB) *gorm.DB {
			return db.Order(
				"price")
		}).Preload("Roles").Preload("Profile").First(&u, "name = ?", "ann").Error)
		equal([]any{len(u.Posts), u.Posts[0].Title, u.Posts[0].Price, u.Roles[0].Name,
			*u.Profile.Bio, u.Age}, []any{2, "one", 1.5, "admin", "b", 30})
		equal(errors.Is(db.First(&user{}, 99).Error, gorm.ErrRecordNotFound), true)
		var count int64
		try(db.Model(&user{}).Where("name IN ?", []string{"ann", "bob"}).Or(&user{Age: 7}).Count(
			&count).Error)
		equal(count, int64(2))
	})
	with("joins and groups", func(db *gorm.DB) {
		filled(db)
		var rows []struct {
			Name  string
			N     int64
			Total float64
		}
		try(
			db.Model(&user{}).Select("users.name, count(*) AS n, sum(posts.price) AS total").Joins(
				"JOIN posts ON posts.user_id = users.id").
				Group("users.name").Having("count(*) > ?", 1).Scan(&rows).Error)
		equal(len(rows), 1)
		equal(rows[0].Total, 3.5)
		var users []user
		try(db.Joins("Profile").Where("name = ?", "ann").Find(&users).Error)
		equal(*users[0].Profile.Bio, "b")
		sub := db.Model(&post{}).Select("avg(price)")
		var titles []string
		try(db.Model(&post{}).Where("price > (?)", sub).Order("title").Pluck("title", &titles).Error)
		equal(titles, []string{"one", "two"})
	})
	with("updates and deletes", func(db *gorm.DB) {
		filled(db)
		try(db.Model(&user{}).Where("name = ?", "ann").Updates(map[string]any{"age": gorm.Expr(
			"age + ?", 1)}).Error)
		var u user
		try(db.Clauses(clause.Returning{}).Model(&u).Where("name = ?", "ann").Update("age",
			gorm.Expr("age + 1")).Error)
		equal(u.Age, 32)
		try(db.Delete(&user{}, "name = ?", "ann").Error)
		var count int64
		try(db.Model(&user{}).Count(&count).Error)
		equal(count, int64(1))
		try(db.Unscoped().Where("name = ?", "bob").Delete(&user{}).Error)
		try(db.Model(&post{}).Count(&count).Error)
		equal(count, int64(2))
	})
	with("upserts", func(db *gorm.DB) {
		filled(db)
		update := clause.OnConflict{Columns: []clause.Column{{Name: "name"}},
			DoUpdates: clause.AssignmentColumns([]string{"age"})}
		try(db.Clauses(update).Create(&user{Name: "ann", Age: 50}).Error)
		var u user
		try(db.First(&u, "name = 'ann'").Error)
		equal(u.Age, 50)
		try(db.Clauses(clause.OnConflict{DoNothing: true}).Create(&user{Name: "ann", Age: 1}).Error)
		var carl user
		try(db.Where(user{Name: "carl"}).Attrs(user{Age: 3}).FirstOrCreate(&carl).Error)
		equal(carl.Age, 3)
	})
	with("batches", func(db *gorm.DB) {
		migrated(db)
		users := make([]user, 500)
		for i := range users {
			users[i] = user{Name: uuid.NewString()}
		}
		try(db.CreateInBatches(&users, 100).Error)
		equal(users[499].ID > 0, true)
		seen := 0
		try(db.FindInBatches(&[]user{}, 70, func(tx *gorm.DB,
			_ int) error {
			seen += int(tx.RowsAffected)
			return nil
		}).Error)
		equal(seen, 500)
	})
	with("associations", func(db *gorm.DB) {
		filled(db)
		var u user
		try(db.First(&u, "name = 'ann'").Error)
		try(db.Model(&u).Association("Roles").Append(&role{Name: "more"}))
		equal(db.Model(&u).Association("Roles").Count(), int64(2))
		try(db.Model(&u).Association("Roles").Clear())
		equal(db.Model(&u).Association("Roles").Count(), int64(0))
	})
	with("errors", func(db *gorm.DB) {
		filled(db)
		equal(raises("23505", db.Create(&user{Name: "ann"}).Error).ConstraintName, "idx_users_name")
		raises("23514", db.Create(&user{Name: "x", Age: -1}).Error)
		raises("23503", db.Create(&post{UserID: 99}).Error)
	})
	with("transactions and savepoints", func(db *gorm.DB) {
		filled(db)
		try(db.Transaction(func(tx *gorm.DB) error {
			try(tx.Create(&user{Name: "carl"}).Error)
			inner := tx.Transaction(func(tx *gorm.DB) error {
				tx.Exec(
					"DELETE FROM posts")
				return errors.New("back")
			})
			equal(inner.Error(), "back")
			return nil
		}))
		var users, posts int64
		db.Model(&user{}).Count(&users)
		db.Model(&post{}).Count(&posts)
		equal([]int64{users, posts}, []int64{3, 3})
	})
	with("row locks", func(db *gorm.DB) {
		filled(db)
		try(db.Transaction(func(tx *gorm.DB) error {
			var u user
			try(tx.Clauses(clause.Locking{Strength: "UPDATE"}).First(&u, "name = 'ann'").Error)
			var names []string
			free := clause.Locking{Strength: "UPDATE", Options: "SKIP LOCKED"}
			return db.Transaction(func(other *gorm.DB) error {
				try(other.Model(&user{}).Clauses(free).Pluck("name", &names).Error)
				equal(names, []string{"bob"})
				return nil
			})
		}))
	})
	with("JSON", func(db *gorm.DB) {
		migrated(db)
		try(db.Create(&user{Name: "ann", Posts: []post{{Title: "t", Data: `{"a": {"b": 5}}`}}}).Error)
		var title string
		try(db.Model(&post{}).Where("data -> 'a' ->> 'b' = ?", "5").Pluck("title", &title).Error)
		equal(title, "t")
	})
	with("rows one by one", func(db *gorm.DB) {
		rows := must(db.Raw("SELECT g FROM generate_series(1, 100) g").Rows())
		defer rows.Close()
		sum := 0
		for rows.Next() {
			var n int
			try(rows.Scan(&n))
			sum += n
		}
		equal(sum, 5050)
	})
	with("prepared statements", func(db *gorm.DB) {
		filled(db)
		prepared := db.Session(&gorm.Session{PrepareStmt: true})
		for range 3 {
			var u user
			try(prepared.First(&u, "name = ?", "bob").Error)
			equal(u.Age, 18)
		}
	})
}
